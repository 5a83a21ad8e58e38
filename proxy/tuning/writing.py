"""The policy's file, exchanged for another text as a whole, and only if nobody has changed it meanwhile."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from proxy.tuning.faults import Untunable

_CONFIG_MAP: Final = "..data"  # how Kubernetes mounts one: the file leads through this to the present version


def rewrite(path: Path, before: str, after: str) -> None:
    """Put a text in the place of the one that was read. The file keeps its mode, and a link to it stays one. Raises Untunable."""
    real = _real(path)
    try:
        status = real.stat()
        with tempfile.NamedTemporaryFile(
            dir=real.parent, prefix=f".{real.name}.", mode="wb", delete=False
        ) as made:
            try:
                made.write(after.encode())
                made.flush()
                os.fchmod(made.fileno(), status.st_mode & 0o7777)
                _keep_owner(made.fileno(), status)
                os.fsync(made.fileno())
                if real.read_bytes() != before.encode():
                    raise Untunable(
                        f"{path} has been changed meanwhile", "nothing was written; run this again"
                    )
                Path(made.name).replace(real)
            except BaseException:
                Path(made.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        why = error.strerror or str(error)
        remedy = "the folder must be writable; or save the diff, and apply it where the policy is kept"
        raise Untunable(f"{path} cannot be written: {why}", remedy) from None


def _real(path: Path) -> Path:
    """Return the file itself. Raises Untunable for one that a ConfigMap shows."""
    real = path.resolve()
    if path.is_symlink() and _CONFIG_MAP in Path(os.readlink(path)).parts:  # noqa: PTH115 - one link, not the last
        problem = f"{path} is shown by a ConfigMap, which only Kubernetes writes"
        remedy = "apply the diff to the values of the chart (policy), or to that ConfigMap; running sidecars take it up"
        raise Untunable(problem, remedy, "kubectl edit configmap NAME")
    return real


def _keep_owner(file: int, status: os.stat_result) -> None:
    """Give the new file the owner of the old one."""
    mine = os.fstat(file)
    if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(file, status.st_uid, status.st_gid)

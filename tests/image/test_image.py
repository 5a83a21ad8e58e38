"""The image itself: what runs in it, as whom, and what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

import proxy
from tests.image.containers import output, started
from tests.image.images import Image
from tests.support.waiting import eventually
from tests.ways.apart import namespace, run

pytestmark = pytest.mark.timeout(600)  # the first test builds it

READ_ONLY = {"readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "tcc", "make", "pip", "pip3")


def test_it_says_its_version(image: Image, tmp_path: Path) -> None:
    """The version of this checkout."""
    assert output(image, tmp_path, "--version") == (0, f"waterclock, version {proxy.__version__}\n")


@pytest.mark.parametrize("role", ["run", "injector", "redirect"])
def test_each_role_is_a_command_of_the_one_image(image: Image, tmp_path: Path, role: str) -> None:
    """Everything that a role imports is there."""
    status, said = output(image, tmp_path, role, "--help")
    assert (status, said.split(":")[0]) == (0, "Usage")


def test_it_runs_as_its_own_user(image: Image, tmp_path: Path) -> None:
    """2180, who may write nothing but the journal's folder."""
    assert image.config["User"] == "2180:2180"
    assert output(image, tmp_path, "id", "-u", entrypoint=False) == (0, "2180\n")
    assert (image.rootfs / "var/lib/waterclock").stat().st_uid == 2180
    status, said = output(image, tmp_path, "touch", "/opt/waterclock/new", entrypoint=False)
    assert status != 0
    assert "Read-only" in said


def test_there_is_no_compiler_and_no_installer(image: Image) -> None:
    """What builds the image stays in the first stage."""
    places = ("usr/bin", "usr/local/bin", "bin", "opt/waterclock/bin", "usr/sbin")
    found = [
        f"{place}/{name}" for place in places for name in COMPILERS if (image.rootfs / place / name).exists()
    ]
    assert found == []
    assert not list(image.rootfs.glob("opt/waterclock/lib/python3*/site-packages/pip"))


def test_iptables_is_there(image: Image, tmp_path: Path) -> None:
    """`waterclock redirect` needs it, for both versions of IP."""
    for command in ("iptables-restore", "ip6tables-restore"):
        status, said = output(image, tmp_path, command, "--version", entrypoint=False)
        assert status == 0, said


def test_every_module_has_its_bytecode(image: Image) -> None:
    """Nothing can be written where it runs, so that every start would compile what is missing."""
    (library,) = image.rootfs.glob("opt/waterclock/lib/python3*/site-packages")
    sources = list((library / "proxy").rglob("*.py")) + list((library / "kubernetes" / "aio").rglob("*.py"))
    assert len(sources) > 500
    bare = [path for path in sources if not list(path.parent.glob(f"__pycache__/{path.stem}.*.pyc"))]
    assert bare == []


def test_labels_say_what_it_is(image: Image) -> None:
    """The annotations of the OCI image specification that scanners and registries read."""
    labels = {
        name.removeprefix("org.opencontainers.image."): value
        for name, value in image.config["Labels"].items()
    }
    assert labels["title"] == "Waterclock"
    assert labels["licenses"] == "Apache-2.0"
    assert labels["version"] == proxy.__version__
    assert labels["base.name"]


def test_the_health_check_asks_the_sidecar(image: Image, tmp_path: Path) -> None:
    """It fails while nothing listens, and passes as soon as the sidecar is ready, read-only as the root is."""
    kind, *check = image.config["Healthcheck"]["Test"]
    assert kind == "CMD"
    status, _ = output(image, tmp_path, *check[1:-1], "100ms")
    assert status == 1
    spec = {
        "securityContext": READ_ONLY,
        "volumeMounts": [{"name": "journal", "mountPath": "/var/lib/waterclock"}],
    }
    journal = tmp_path / "journal"
    journal.mkdir(mode=0o777)
    journal.chmod(0o777)
    with namespace() as network:
        run("ip", "link", "set", "lo", "up")
        with started(image, tmp_path, spec, volumes={"journal": journal}, network=network) as container:
            eventually(lambda: any(each.get("event") == "started" for each in container.events()), within=30)
            container.exec(*check)
            assert container.stop() == 0
            assert container.events()[-1]["event"] == "stopped"


def test_without_a_folder_for_the_journal_it_says_so(image: Image, tmp_path: Path) -> None:
    """On a read-only root somebody has to mount one; the message names the path."""
    status, said = output(image, tmp_path, "run")
    assert status == 1
    assert "/var/lib/waterclock" in said

"""The running process: `sidecar` is its life, `policy_file` what is in force, `desk` what operators see and decide,
`gauges` what a scrape reads of it.
"""

from proxy.admin.server import ListenFailed
from proxy.app.sidecar import Sidecar, journal_path
from proxy.store.errors import JournalError

__all__ = ["JournalError", "ListenFailed", "Sidecar", "journal_path"]

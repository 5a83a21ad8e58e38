"""What libraries say through `logging`, as lines of the one log."""

from __future__ import annotations

import logging

from proxy.observe.steplog import StepLog


class EventHandler(logging.Handler):
    """Writes each logging record as the event `log`, its traceback included."""

    def __init__(self, log: StepLog, level: int = logging.WARNING) -> None:
        """Write to `log` what is of this level or above."""
        super().__init__(level)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; one that cannot be formatted goes where `logging` sends those."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            self.handleError(record)
            return
        fields = {"level": record.levelname.lower(), "logger": record.name, "message": message}
        if record.exc_info:
            fields["exception"] = _PLAIN.formatException(record.exc_info)
        self._log.event("log", **fields)


_PLAIN = logging.Formatter()

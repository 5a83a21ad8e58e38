"""Call a tool twice, as any app would: with time left, and with none. Say whether a sidecar held both calls to their budget."""

import os
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

TOOL, MODE = sys.argv[1:]

if "HTTP_PROXY" not in os.environ:
    sys.exit(
        "This pod was not injected: it has no proxy variables. Under failurePolicy Ignore, a pod is created without a "
        "sidecar when no injector answers. Wait until the injector is ready, and run the test again; if it stays so, "
        "read the injector's log."
    )
os.environ["no_proxy"] = ""  # a platform may let calls to its own cluster pass by; this one must not


def call(budget, remaining_ms):
    """Return what the answer says of the budget, after printing it."""
    request = Request(TOOL, headers={"Budget-Id": budget, "Budget-Remaining-Ms": str(remaining_ms)})
    try:
        answer = urlopen(request, timeout=30)
    except HTTPError as error:
        answer = error
    except OSError as error:
        sys.exit(f"The sidecar at {os.environ['HTTP_PROXY']} did not answer: {error}")
    with answer:
        print(f"Budget-Remaining-Ms: {remaining_ms}  ->  {answer.status} {answer.reason}")
        said = {name: value for name, value in answer.headers.items() if name.startswith("Budget-")}
        for name, value in said.items():
            print(f"  {name}: {value}")
        if "Budget-Outcome" not in said:
            sys.exit("The answer has no Budget-Outcome: the call did not pass through a sidecar.")
        return said


answered = call("helm-test", 10000)
if not answered["Budget-Outcome"].startswith("completed"):
    sys.exit(f"The call to {TOOL} should have been completed.")
if int(answered["Budget-Remaining-Ms"]) > 10000:
    sys.exit("The budget has grown.")

refused = call("helm-test-without-time", 0)["Budget-Outcome"]
if MODE == "observe":
    print(
        "A sidecar was injected. The policy's mode is observe: it decides and records, and lets every call pass."
    )
elif refused.startswith("refused"):
    print("A sidecar was injected, and holds its pod to the budget.")
else:
    sys.exit("The call with no time left should have been refused.")

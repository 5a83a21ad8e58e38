"""Waterclock on Kubernetes: how pods get their sidecar, how their calls reach it, and who keeps its policy.

`names` holds what people write into manifests. `settings` reads what the chart tells the injector.

`injection` is pure: a pod, what is around it and the settings go in, a decision with a JSON patch and a reason comes
out (`injection/decision.py` first). `redirect` makes and applies the rules of the redirect mode. `policies` keeps the
policy's ConfigMap in every opted-in namespace and compiles BudgetPolicies into it. `certificates` makes, renews and
loads what the webhook serves with.

`cluster` is the API server as all of this sees it, and `client` the only file that talks to it; `mirror` keeps what is
watched; `election` says which replica leads. `webhook` answers reviews, from what `surroundings` knows of the pod's
namespace; `events` tells the cluster what was decided, and `recent` keeps it from telling twice; `injector` is the
running process that puts all of it together.

Nothing here is ever imported by a sidecar; `redirect`, `names` and `injection` are light enough for its command line.
"""

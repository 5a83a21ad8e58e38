"""What ties the objects that the injector keeps to its installation, so that none is left behind when that is removed.

Without an owner nothing is made: the MutatingWebhookConfiguration is the last that an installation brings and the first
that an uninstallation takes, and injectors that run meanwhile must not make again what was just collected.
"""

from __future__ import annotations

from proxy.kube.cluster import WEBHOOKS, Object


def owned_by(webhook: Object | None) -> list[Object]:
    """Return the `ownerReferences` of what the injector keeps: its MutatingWebhookConfiguration; none while there is none.

    It has no namespace, so it may own objects in all of them; the cluster's garbage collector removes those after it.
    """
    if webhook is None:
        return []
    metadata = webhook["metadata"]
    reference = {"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind}
    return [{**reference, "name": metadata["name"], "uid": metadata["uid"]}]

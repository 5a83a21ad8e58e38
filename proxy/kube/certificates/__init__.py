"""The webhook's certificate: made, renewed and trusted without a restart and without a failed review.

It stands in one Secret of the injector's namespace, as `kubernetes.io/tls` Secrets have it: `tls.crt`, `tls.key`, and
`ca.crt`, what to trust it by. `pem` reads these; `authority` makes certificates; `rotation` says, as a pure function,
what becomes of the Secret at a moment. `keeper` is what the leader does: it makes and renews (mode `self`), and writes
what is trusted into the webhook's `caBundle` (modes `self` and `secret`; with cert-manager that is cainjector's).
`loading` is what every replica does: it puts the Secret's certificate to use as soon as it is there.
"""

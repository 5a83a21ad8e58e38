"""What becomes of a pod, as pure functions: no cluster, no clock, no file.

`decision` holds the words and the rule: skip, refuse or inject, each with a reason. `wishes` reads a pod's labels and
annotations, and says where they are wrong. `containers` builds what is added, `environment` the proxy variables,
`patch` the JSON patch (RFC 6902) from the two. `review` reads and writes AdmissionReviews.
"""

"""What becomes of a pod, as pure functions: no cluster, no clock, no file.

`decision` holds the words, `rule` the rule: skip, refuse or inject, each with a reason. Whoever builds on it needs four
functions:

    rule.decide(pod, around, settings) -> Decision               any JSON value, and never an exception
    review.read(body) -> ReviewRequest | BadReview               what the API server asks
    review.judge(request, around, settings) -> Decision          `decide`, and what is said of reviews of no pod
    review.answer(uid, decision) -> dict                         the AdmissionReview to answer with

`pod` checks a pod's shape once, so that everything behind it can rely on it. `wishes` reads its labels and annotations,
and says where they are wrong; `policy_choice` says which policy it has, with `selectors`. `containers` builds what is
added, `environment` the proxy variables, `patch` the JSON patch (RFC 6902) from the two. `explain` shows a decision to
people and programs.
"""

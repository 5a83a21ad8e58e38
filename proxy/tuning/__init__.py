"""Tuning: from what was measured to other shares and needs, as a change of the policy (`waterclock tune`).

    steplog, records, histograms   where it is read from: step logs, the control API of a sidecar, Prometheus (`asking`)
    seen, jobs, union, rungs       steps, and what their jobs used of each stage, or a rung took
    distribution                   what is known of a need: a quantile and a rate lie between two bounds, for what was cut
    sketched, bucketed             the two kinds: made of single samples (DDSketch), and of the buckets of a histogram
    measured                       all that was measured, whoever told of it
    table, proposal, needs         what is to be said of it: verdicts, shares that add up, needs of rungs
    outcome                        these together
    edit, writing                  the policy's text with the changes in it, and the file exchanged for it

All but `asking`, `steplog` and `writing` is pure. No sidecar ever imports this package.
"""

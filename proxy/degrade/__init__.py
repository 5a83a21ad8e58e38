"""Answering with less when time runs short: how it is done, once `core` has decided that it is.

`change` rewrites a request as a rung of the ladder says, and `given` makes the answers of rungs that ask nobody. `measured`
knows how long each rung took of late, for those whose needs are to be measured (`needs: auto`). `cache` keeps whole answers
and finds them again: by the same request, or through a service by its meaning. `endings` closes a stream before its end in
the form that its client understands, one small file a dialect.

Which rung is taken is decided in `core.ladder`; the call itself goes through `dataplane`, which stands above this.
"""

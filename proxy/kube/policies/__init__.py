"""Whose policy holds where: the chart's in every opted-in namespace, and what BudgetPolicies say instead.

`schema` makes a JSON schema of the tables of `proxy.config`, `rules` adds what a schema cannot say, and `crd` wraps both
into the CustomResourceDefinition.

`compiled` is the heart, and pure: the chart's policy and a namespace's BudgetPolicies go in, the data of its ConfigMap
and a verdict on each of them come out. `budget_policy` reads such an object and writes its policy as YAML, `selectors`
says what is wrong with a selector, `status` what became of it all.

`config_map` compares the ConfigMap that should be with the one that is. `keeper` does what follows from that, one
namespace at a time (`pending` says which, and when), `source` is the chart's policy file, and `controller` puts it
together: what changes in the cluster goes into `pending`, and nothing else does.
"""

"""How precisely a call is cut: `plan` says which cuts are made, `callers` makes them and takes the time, `lateness` measures, `table`
shows. README.md says how to read it.
"""

"""`python -m proxy.cli`: the same as the command `waterclock`."""

from proxy.cli import main

main(prog_name="waterclock")

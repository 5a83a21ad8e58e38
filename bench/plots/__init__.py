"""The plots of docs/plots, drawn from results that were measured before."""

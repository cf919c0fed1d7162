"""The peers' side of the comparisons: nothing here imports alem, so that a process can run it without."""

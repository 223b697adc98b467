"""Makes the files of the Helm chart that are derived from something else."""

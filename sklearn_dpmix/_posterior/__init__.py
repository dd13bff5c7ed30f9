"""What draws of mixtures say: densities, clusters, partitions, releases one by one, conditional distributions."""

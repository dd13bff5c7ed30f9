"""Private chains: Markov chains of curators that pay for each look at the records, and a private approximation."""

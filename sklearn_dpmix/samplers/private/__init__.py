"""Private chains: curators' Markov chains that pay for each look at the records, and a private normal approximation."""

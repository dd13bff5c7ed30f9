"""What was released, before any sampling: the records, their summary, and the nodes that stand for them."""

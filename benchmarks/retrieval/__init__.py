"""Does a recall find what answers the question? Judged by where the evidence is, by no model."""

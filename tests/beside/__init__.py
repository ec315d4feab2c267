"""Other people's tools on the same live cluster as ours."""

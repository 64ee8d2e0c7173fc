"""Pictures of results: SVG and one page, made from the JSON files of `bench` and `bench.production`. No library."""

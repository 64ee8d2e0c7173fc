"""Record batches as bytes: header, build, padding, stamp, decode, re-encode."""

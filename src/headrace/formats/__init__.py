"""Sources: bytes to columns. What says how many records there are, reads any of them, and knows what their data is.

A source here opens files, makes and checks their indexes, and gives columns of `headrace.batch` for record numbers. It
knows nothing of order (`headrace.plan`) or of what is done with the records (`headrace.dataset`). The modules are used
one by one; the package itself exports nothing. What stands where:

- What a source is: `source.py`; of sequences with keys and chunks `sequences.py`, with `parsed.py` for what is read of
  them, `repeats.py` for their keys, `kept.py` and `columnar.py` to keep them in memory or on disk, `exchange.py` for
  whole columns of them, `samples.py` for what writers take.
- Files, whatever the format: `files.py` finds and opens, `packed.py` unpacks and packs, `sidecar.py` keeps indexes,
  `atomic.py` writes, `in_order.py` goes through them on threads.
- CNTK's text: `ctf.py` reads by `ctf_schema.py` (streams), `ctf_index.py` (where sequences are) and `ctf_survey.py`
  (lengths, mistakes); `ctf_writer.py` and `ctf_append.py` write, `ctf_infer.py` tells the streams. CNTK's binary
  format: `cbf.py`, `cbf_writer.py`.
- TFRecord files: `tfrecord.py`, `record_source.py`, `record_file.py`; what is in them: `features.py`,
  `ragged_feature.py`, `example.py`, `example_encode.py`, `example_infer.py`.
- Other files: `text.py` (lines), `jsonl.py`, `npz.py`, `arrow.py`. No files: `arrays.py`, `objects.py`, `stream.py`.
"""

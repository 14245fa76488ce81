"""Evaluation on ADK: cases as its `EvalCase`s, played on our runner, judged by its evaluation service."""

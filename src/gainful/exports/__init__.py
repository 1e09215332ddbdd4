"""Models for search engines and runtimes: ONNX, Elasticsearch, OpenSearch, Solr, plain JSON."""

from gainful.exports.exporting import TARGETS, Exported, export

__all__ = ["TARGETS", "Exported", "export"]

"""gainful's own binary format: the functions that :mod:`gainful.formats` calls."""

from gainful.formats.binary.reader import read as read
from gainful.formats.binary.stream import open_source as open_source
from gainful.formats.binary.writer import open_writer as open_writer

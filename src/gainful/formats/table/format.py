"""Tables: the functions that :mod:`gainful.formats` calls."""

from gainful.formats.table.reader import columns as columns
from gainful.formats.table.reader import read as read
from gainful.formats.table.stream import open_source as open_source
from gainful.formats.table.writer import open_writer as open_writer

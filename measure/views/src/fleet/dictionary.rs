//! A column of texts as a Parquet column chunk: a page with the dictionary, and a page with the numbers of the texts.
//!
//! parquet's own writer finds the number of each value by its bytes and compares it with the least and the greatest: 45 ns a
//! value, and a sample has 26 texts. Here texts come with their numbers, and the crate writes only the pages.
//!
//! ```text
//!  dictionary page   length, bytes  of each text of the chunk, in order of appearance
//!  data page         [length, levels: 1 where a row has a value]  bits of a number  numbers
//! ```
//!
//! Levels and numbers are in Parquet's hybrid of runs and packed bits (format specification, "Run Length Encoding /
//! Bit-Packing Hybrid").

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

/// zstd's level of all columns.
pub(super) const LEVEL: i32 = 1;
/// The longest text in the statistics, in bytes: as by default in parquet's writer. A longer one is left out.
const LONGEST: usize = 64;
/// Not in the chunk's dictionary.
const ABSENT: u32 = u32::MAX;
/// A shorter run is packed: as a separate run it would take more bytes, and end the packed run before it.
const SHORTEST_RUN: usize = 16;

/// Encodes columns of texts, one after the other.
pub(super) struct DictionaryEncoder {
    compressor: Compressor<'static>,
    /// By number of a text in the file: its number in the chunk, or [`ABSENT`]. Between two chunks all are absent.
    local: Vec<u32>,
}

/// The rows of a column, as numbers of texts in the file.
pub(super) struct TextColumn<'b> {
    /// The number of each row that has a value.
    pub numbers: &'b [u32],
    /// 1 for each row with a value, 0 for each without; `None` where every row has one.
    pub defined: Option<&'b [i16]>,
    /// The texts of the file.
    pub texts: &'b [ByteArray],
}

impl DictionaryEncoder {
    /// # Errors
    /// If zstd cannot be set up.
    pub(super) fn new() -> Result<DictionaryEncoder, ParquetError> {
        Ok(DictionaryEncoder { compressor: Compressor::new(LEVEL)?, local: Vec::new() })
    }

    /// The bytes of the column's chunk, and its entry in the file's footer.
    ///
    /// # Errors
    /// If zstd fails, or a page is larger than Parquet allows.
    pub(super) fn encode(
        &mut self,
        column: &TextColumn<'_>,
        descriptor: ColumnDescPtr,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let (dictionary, numbers) = self.localize(column);
        let rows = column.defined.map_or(numbers.len(), <[i16]>::len);
        let mut plain = Vec::new();
        for text in &dictionary {
            plain.extend((text.data().len() as u32).to_le_bytes());
            plain.extend(text.data());
        }
        let mut data = Vec::new();
        if let Some(defined) = column.defined {
            data.extend([0; 4]);
            hybrid(defined.iter().map(|level| *level as u32), 1, &mut data);
            let length = data.len() as u32 - 4;
            data[..4].copy_from_slice(&length.to_le_bytes());
        }
        let bits = u32::BITS - (dictionary.len().saturating_sub(1) as u32).leading_zeros();
        data.push(bits as u8);
        hybrid(numbers.iter().copied(), bits, &mut data);

        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let num_values = dictionary.len() as u32;
        let encoding = Encoding::PLAIN;
        let first = self.compressed(&plain, |buf| Page::DictionaryPage {
            buf,
            num_values,
            encoding,
            is_sorted: false,
        })?;
        let first = pages.write_page(first)?;
        let second = self.compressed(&data, |buf| Page::DataPage {
            buf,
            num_values: rows as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })?;
        let second = pages.write_page(second)?;
        pages.close()?;
        let chunk = Bytes::from(sink.into_inner()?);

        let nulls = (rows - numbers.len()) as u64;
        let short = |text: &&ByteArray| text.data().len() <= LONGEST;
        let least = dictionary.iter().min_by_key(|text| text.data()).filter(|text| short(text)).cloned();
        let greatest = dictionary.iter().max_by_key(|text| text.data()).filter(|text| short(text)).cloned();
        let metadata = ColumnChunkMetaData::builder(descriptor)
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_total_compressed_size((first.compressed_size + second.compressed_size) as i64)
            .set_total_uncompressed_size((first.uncompressed_size + second.uncompressed_size) as i64)
            .set_num_values(rows as i64)
            .set_dictionary_page_offset(Some(first.offset as i64))
            .set_data_page_offset(second.offset as i64)
            .set_statistics(Statistics::byte_array(least, greatest, None, Some(nulls), false))
            .build()?;
        let closed = ColumnCloseResult {
            bytes_written: chunk.len() as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((chunk, closed))
    }

    /// The texts of the chunk in order of appearance, and the rows as numbers of these.
    fn localize(&mut self, column: &TextColumn<'_>) -> (Vec<ByteArray>, Vec<u32>) {
        self.local.resize(column.texts.len(), ABSENT);
        let mut used: Vec<u32> = Vec::new();
        let local = &mut self.local;
        let number = |number: &u32| {
            let slot = &mut local[*number as usize];
            if *slot == ABSENT {
                *slot = used.len() as u32;
                used.push(*number);
            }
            *slot
        };
        let numbers = column.numbers.iter().map(number).collect();
        used.iter().for_each(|number| self.local[*number as usize] = ABSENT);
        (used.iter().map(|number| column.texts[*number as usize].clone()).collect(), numbers)
    }

    fn compressed(
        &mut self,
        bytes: &[u8],
        page: impl FnOnce(Bytes) -> Page,
    ) -> Result<CompressedPage, ParquetError> {
        let compressed = self.compressor.compress(bytes)?;
        Ok(CompressedPage::new(page(compressed.into()), bytes.len()))
    }
}

/// Appends numbers of `bits` bits each: long runs as such, all others packed in groups of eight.
fn hybrid(numbers: impl Iterator<Item = u32>, bits: u32, out: &mut Vec<u8>) {
    let mut numbers = numbers.peekable();
    let mut packed: Vec<u32> = Vec::new();
    while let Some(number) = numbers.next() {
        let mut length = 1;
        while numbers.next_if_eq(&number).is_some() {
            length += 1;
        }
        // Only the last packed run may end within a group.
        let fill = (8 - packed.len() % 8) % 8;
        if length < SHORTEST_RUN + fill {
            packed.resize(packed.len() + length, number);
            continue;
        }
        packed.resize(packed.len() + fill, number);
        pack(&mut packed, bits, out);
        varint(((length - fill) as u64) << 1, out);
        out.extend(&number.to_le_bytes()[..bits.div_ceil(8) as usize]);
    }
    pack(&mut packed, bits, out);
}

/// Appends a run of packed numbers, filled up to a multiple of eight, and empties it.
fn pack(packed: &mut Vec<u32>, bits: u32, out: &mut Vec<u8>) {
    if packed.is_empty() {
        return;
    }
    packed.resize(packed.len().next_multiple_of(8), 0);
    varint((packed.len() as u64 / 8) << 1 | 1, out);
    for group in packed.chunks_exact(8) {
        let (mut word, mut filled) = (0_u64, 0);
        for number in group {
            word |= u64::from(*number) << filled;
            filled += bits;
            if filled >= 32 {
                out.extend((word as u32).to_le_bytes());
                word >>= 32;
                filled -= 32;
            }
        }
        out.extend(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
    }
    packed.clear();
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(numbers: &[u32], bits: u32) -> Vec<u8> {
        let mut out = Vec::new();
        hybrid(numbers.iter().copied(), bits, &mut out);
        out
    }

    /// The example of the format specification: 0 to 7 of 3 bits, packed, are 88 C6 FA.
    #[test]
    fn packed_as_in_the_specification() {
        assert_eq!(encoded(&[0, 1, 2, 3, 4, 5, 6, 7], 3), [0b11, 0x88, 0xc6, 0xfa]);
    }

    #[test]
    fn a_long_run_is_its_length_and_its_number() {
        assert_eq!(encoded(&[5; 100], 3), [0xc8, 0x01, 5]);
        assert_eq!(encoded(&[0; 100], 0), [0xc8, 0x01], "a dictionary of one text");
        assert_eq!(encoded(&[], 1), [0_u8; 0]);
    }

    /// Three numbers, then 30 times 2: five of these fill the group, 25 are a run.
    #[test]
    fn a_run_begins_at_the_end_of_a_group() {
        let numbers: Vec<u32> = [1, 0, 1].into_iter().chain([2; 30]).collect();
        // 01 00 01 10 10 10 10 10 from the lowest bit.
        assert_eq!(encoded(&numbers, 2), [0b11, 0b1001_0001, 0b1010_1010, 25 << 1, 2]);
    }
}

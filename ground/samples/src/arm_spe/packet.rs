//! Cutting one packet off a trace.

/// One packet with its undecoded payload; [`super::record`] interprets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Bytes that fill a gap.
    Padding,
    /// The end of a record without a time.
    End,
    /// The end of a record, and its time in ticks of the system counter.
    Timestamp(u64),
    /// Event flags of the operation: bits of [`super::Events`].
    Events(u64),
    /// The source that served the load, in the processor's own numbering.
    DataSource(u16),
    /// `CONTEXTIDR` of an exception level.
    Context {
        /// 1 or 2; the other two values of the header are reserved.
        level: u8,
        /// The register.
        id: u32,
    },
    /// The kind of operation.
    Operation {
        /// 0 other, 1 load, store or atomic, 2 branch or exception return.
        class: u8,
        /// Bits that depend on the class.
        detail: u8,
    },
    /// An address, with the attributes of its top byte.
    Address {
        /// 0 instruction, 1 branch target, 2 data (virtual), 3 data (physical), 4 target of the branch before.
        index: u8,
        /// The whole payload.
        payload: u64,
    },
    /// A number of cycles.
    Counter {
        /// 0 in total, 1 until issue, 2 for translation.
        index: u8,
        /// Number of cycles; processors saturate at their maximum.
        cycles: u16,
    },
}

/// The reason why there is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPacket {
    /// The packet continues beyond the given bytes.
    Incomplete,
    /// No packet of the architecture begins like this.
    Reserved,
}

/// The longest packet: two bytes of header, eight of payload. Padding to an alignment may be longer.
pub const LONGEST: usize = 10;

// The header's patterns, after masking away the size or the index.
const PADDING: u8 = 0x00;
const END: u8 = 0x01;
const TIMESTAMP: u8 = 0x71;
const EVENTS: u8 = 0x42;
const DATA_SOURCE: u8 = 0x43;
const CONTEXT: u8 = 0x64;
const OPERATION: u8 = 0x48;
const ADDRESS: u8 = 0xb0;
const COUNTER: u8 = 0x98;
const EXTENDED: u8 = 0x20;

impl Packet {
    /// Reads the packet at the front of `bytes`; returns it and its length. `at` is the offset of `bytes` in the
    /// trace buffer: padding extends to the next multiple of its alignment.
    ///
    /// The length is at least 1. For padding alone it may exceed `bytes`.
    ///
    /// # Errors
    ///
    /// [`NoPacket::Incomplete`] if `bytes` ends before the packet does; other variants for a header that no
    /// packet has.
    pub fn read(bytes: &[u8], at: u64) -> Result<(Packet, usize), NoPacket> {
        let header = *bytes.first().ok_or(NoPacket::Incomplete)?;
        match header {
            PADDING => return Ok((Packet::Padding, 1)),
            END => return Ok((Packet::End, 1)),
            TIMESTAMP => return with_payload(bytes, 1, 8, Packet::Timestamp),
            _ => {}
        }
        let size = 1usize << (header >> 4 & 3);
        match header & 0xcf {
            EVENTS => return with_payload(bytes, 1, size, Packet::Events),
            // Sizes of four and eight bytes are reserved; used data-source packets have one or two.
            DATA_SOURCE if size <= 2 => {
                return with_payload(bytes, 1, size, |source| Packet::DataSource(source as u16))
            }
            _ => {}
        }
        match header & 0xfc {
            CONTEXT if header & 3 < 2 => {
                with_payload(bytes, 1, 4, |id| Packet::Context { level: 1 + (header & 3), id: id as u32 })
            }
            OPERATION => with_payload(bytes, 1, 1, |detail| Packet::Operation {
                class: header & 3,
                detail: detail as u8,
            }),
            EXTENDED => {
                let second = *bytes.get(1).ok_or(NoPacket::Incomplete)?;
                if second == 0 {
                    let multiple = 2u64 << (header & 3);
                    return Ok((Packet::Padding, (multiple - at % multiple) as usize));
                }
                indexed(bytes, 2, second, (header & 3) << 3)
            }
            _ => indexed(bytes, 1, header, 0),
        }
    }
}

/// An address or a counter; the short and the extended form have the same header.
fn indexed(bytes: &[u8], start: usize, header: u8, high: u8) -> Result<(Packet, usize), NoPacket> {
    let index = high | header & 7;
    match header & 0xf8 {
        ADDRESS => with_payload(bytes, start, 8, |payload| Packet::Address { index, payload }),
        COUNTER => with_payload(bytes, start, 2, |cycles| Packet::Counter { index, cycles: cycles as u16 }),
        _ => Err(NoPacket::Reserved),
    }
}

fn with_payload(
    bytes: &[u8],
    start: usize,
    size: usize,
    make: impl FnOnce(u64) -> Packet,
) -> Result<(Packet, usize), NoPacket> {
    let payload = bytes.get(start..start + size).ok_or(NoPacket::Incomplete)?;
    let mut word = [0; 8];
    word[..size].copy_from_slice(payload);
    Ok((make(u64::from_le_bytes(word)), start + size))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row of the table above, with the bytes spelled out.
    #[test]
    fn every_packet_of_the_manuals_table() {
        let cases: [(&[u8], Packet); 15] = [
            (&[0x00], Packet::Padding),
            (&[0x01], Packet::End),
            (&[0x71, 8, 7, 6, 5, 4, 3, 2, 1], Packet::Timestamp(0x0102_0304_0506_0708)),
            (&[0x42, 0x1e], Packet::Events(0x1e)),
            (&[0x52, 0x1e, 0x03], Packet::Events(0x31e)),
            (&[0x62, 0x1e, 0x03, 0x02, 0x00], Packet::Events(0x2031e)),
            (&[0x72, 1, 0, 0, 0, 0, 0, 0, 0x80], Packet::Events(1 << 63 | 1)),
            (&[0x43, 0x0e], Packet::DataSource(0x0e)),
            (&[0x53, 0x0e, 0x01], Packet::DataSource(0x10e)),
            (&[0x64, 0x39, 0x30, 0, 0], Packet::Context { level: 1, id: 12345 }),
            (&[0x65, 0x39, 0x30, 0, 0], Packet::Context { level: 2, id: 12345 }),
            (&[0x49, 0x01], Packet::Operation { class: 1, detail: 1 }),
            (
                &[0xb2, 0x40, 0x10, 0, 0, 0xff, 0xff, 0, 0],
                Packet::Address { index: 2, payload: 0xffff_0000_1040 },
            ),
            (&[0x98, 0x2c, 0x01], Packet::Counter { index: 0, cycles: 300 }),
            // Extended: jj = 01 makes index 0b01_011.
            (&[0x21, 0x9b, 0x2c, 0x01], Packet::Counter { index: 11, cycles: 300 }),
        ];
        for (bytes, packet) in cases {
            assert_eq!(Packet::read(bytes, 0), Ok((packet, bytes.len())), "{bytes:02x?}");
            // An additional byte changes nothing; with one less it is incomplete.
            assert_eq!(Packet::read(&[bytes, &[0xff]].concat(), 0), Ok((packet, bytes.len())));
            assert_eq!(Packet::read(&bytes[..bytes.len() - 1], 0), Err(NoPacket::Incomplete));
            assert!(bytes.len() <= LONGEST);
        }
    }

    #[test]
    fn alignment_goes_up_to_the_next_multiple_in_the_buffer() {
        // jj = 3: multiples of 16.
        for (at, length) in [(0, 16), (1, 15), (14, 2), (15, 1), (0x1000_0004, 12)] {
            assert_eq!(Packet::read(&[0x23, 0x00], at), Ok((Packet::Padding, length)));
        }
        assert_eq!(Packet::read(&[0x20, 0x00], 4), Ok((Packet::Padding, 2)));
    }

    #[test]
    fn what_the_architecture_reserves_is_no_packet() {
        // These of the 256 first bytes begin a packet; 0x20 to 0x23 need a second byte.
        let mut known: Vec<u8> = vec![0x00, 0x01, 0x71];
        known.extend([0x42, 0x52, 0x62, 0x72, 0x43, 0x53, 0x64, 0x65]);
        known.extend([0x48, 0x49, 0x4a, 0x4b]);
        known.extend(0xb0..=0xb7);
        known.extend(0x98..=0x9f);
        known.extend(0x20..=0x23);
        for header in 0..=u8::MAX {
            let mut bytes = [0u8; LONGEST];
            bytes[0] = header;
            assert_eq!(Packet::read(&bytes, 0).is_ok(), known.contains(&header), "{header:#04x}");
        }
        assert_eq!(Packet::read(&[0x20, 0x42, 0, 0], 0), Err(NoPacket::Reserved));
        assert_eq!(Packet::read(&[], 0), Err(NoPacket::Incomplete));
    }
}

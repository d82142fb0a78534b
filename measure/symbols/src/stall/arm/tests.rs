//! Addresses, values and jump tables computed by hand.

use super::*;
use crate::stall::blame::{blame, NoBlame};
use crate::stall::function::Function;
use hardmeter_samples::model::{Architecture, Landing, Registers};

const START: u64 = 0x1000;
const BIAS: u64 = 0x5555_0000_0000;

fn decode(code: &[u32], word: Word<'_>) -> Function<Arm> {
    let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    Function::decode(&bytes, START, word)
}

/// Values of registers by their number.
type Recorded<'a> = &'a [(u8, u64)];

/// The same in the layout of a sample.
fn values(recorded: Recorded<'_>) -> (u64, Vec<[u8; 8]>) {
    let mut recorded = recorded.to_vec();
    recorded.sort_unstable();
    let mask = recorded.iter().fold(0, |mask, (register, _)| mask | 1 << register);
    (mask, recorded.iter().map(|(_, value)| value.to_ne_bytes()).collect())
}

/// Finds the load for a sample behind a piece of code, with these registers.
fn at_end(code: &[u32], recorded: &[(u8, u64)]) -> Result<Option<Result<u64, NoAddress>>, NoBlame> {
    let (mask, values) = values(recorded);
    let registers = Registers { abi: 2, mask, values: &values };
    let function = decode(&[code, &[0xd503_201f]].concat(), &|_| None);
    let position = function.position(START + 4 * code.len() as u64).expect("the end");
    Ok(blame(&function, position, &registers, BIAS, Landing::Behind)?.map(|blamed| blamed.address))
}

const OVERWRITTEN: Result<Option<Result<u64, NoAddress>>, NoBlame> = Ok(Some(Err(NoAddress::Overwritten)));

fn at(address: u64) -> Result<Option<Result<u64, NoAddress>>, NoBlame> {
    Ok(Some(Ok(address)))
}

#[test]
fn addresses_of_plain_loads() {
    // ldr w0, [x1, #8]
    assert_eq!(at_end(&[0xb940_0820], &[(1, 0x2000)]), at(0x2008));
    // ldr x0, [x1, x2, lsl #3]
    assert_eq!(at_end(&[0xf862_7820], &[(1, 0x2000), (2, 3)]), at(0x2018));
    // ldr w0, [x1, w2, sxtw #2]: the index is -1, whatever the upper half holds
    assert_eq!(at_end(&[0xb862_d820], &[(1, 0x2000), (2, 0x7_ffff_ffff)]), at(0x1ffc));
    // ldr x0, [x1, w2, uxtw]
    assert_eq!(at_end(&[0xf862_4820], &[(1, 0x2000), (2, 0x7_0000_0001)]), at(0x2001));
    // ldp x2, x3, [sp, #16]
    assert_eq!(at_end(&[0xa941_0fe2], &[(31, 0x7f00)]), at(0x7f10));
    // ldr x0, 40 bytes on: 0x1040 in the image
    assert_eq!(at_end(&[0x5800_0200], &[]), at(BIAS + 0x1040));
    // ldaxr x0, [x1]; ldadd x0, x2, [x1]; ldadd x0, xzr, [x1]; ldg x0, [x1]
    for load in [0xc85f_fc20, 0xf820_0022, 0xf820_003f, 0xd960_0020] {
        assert_eq!(at_end(&[load], &[(1, 0x2000)]), at(0x2000), "{load:#x}");
    }
    // A tag in the top byte of the pointer is not part of the address.
    assert_eq!(at_end(&[0xb940_0820], &[(1, 0x4200_0000_0000_2000)]), at(0x2008));
}

/// A sample that a phone's processor took, in a public capture of simpleperf: the stack that was copied with it holds
/// at this address the value that w8 has.
#[test]
fn a_sample_of_a_real_machine() {
    // ldr w8, [sp, #28]
    assert_eq!(at_end(&[0xb940_1fe8], &[(8, 0x9_c468), (31, 0x73_d675_3c90)]), at(0x73_d675_3cac));
}

#[test]
fn what_does_not_wait_for_a_load_is_none() {
    // str x0, [x1]; prfm pldl1keep, [x1]; add x0, x0, x1; stlxr w3, x0, [x1]; nop
    for word in [0xf900_0020, 0xf980_0020, 0x8b01_0000, 0xc803_fc20, 0xd503_201f] {
        assert_eq!(at_end(&[word], &[(1, 0x2000)]), Ok(None), "{word:#x}");
    }
    // ld1d {z0.d}, p0/z, [x1]: its lanes may be off, and their number is not in a sample
    assert_eq!(at_end(&[0xa5e0_a020], &[(1, 0x2000)]), Ok(Some(Err(NoAddress::Several))));
}

#[test]
fn an_updated_base_is_wound_back() {
    // ldr x0, [x1], #8: x1 was eight less
    assert_eq!(at_end(&[0xf840_8420], &[(1, 0x2008)]), at(0x2000));
    // ldr x0, [x1, #-16]!: x1 is the address
    assert_eq!(at_end(&[0xf85f_0c20], &[(1, 0x2000)]), at(0x2000));
    // ldp x0, x1, [sp], #32
    assert_eq!(at_end(&[0xa8c2_07e0], &[(31, 0x7f20)]), at(0x7f00));
    // ld1 {v0.16b}, [x1], #16
    assert_eq!(at_end(&[0x4cdf_7020], &[(1, 0x2010)]), at(0x2000));
    // ld1 {v0.16b}, [x1], x2: not undone
    assert_eq!(at_end(&[0x4cc2_7020], &[(1, 0x2010), (2, 16)]), OVERWRITTEN);
    // The update of an earlier access: ldr x0, [x1], #8; ldr w0, [x1, #8]
    assert_eq!(at_end(&[0xf840_8420, 0xb940_0820], &[(1, 0x2008)]), at(0x2010));
}

#[test]
fn an_overwritten_base_is_found_elsewhere_or_not_at_all() {
    const LOAD: u32 = 0xf940_0400; // ldr x0, [x0, #8]
    assert_eq!(at_end(&[LOAD], &[(0, 5)]), OVERWRITTEN);
    // ldp x0, x1, [x0]
    assert_eq!(at_end(&[0xa940_0400], &[(0, 5), (1, 6)]), OVERWRITTEN);
    let made: [(u32, Recorded<'_>, u64); 15] = [
        (0xaa00_03e3, &[(3, 0x3000)], 0x3000), // mov x3, x0: the copy is there
        (0x8b02_0c20, &[(1, 0x3000), (2, 2)], 0x3010), // add x0, x1, x2, lsl #3
        (0x8b22_c820, &[(1, 0x3000), (2, 0xffff_fffe)], 0x2ff8), // add x0, x1, w2, sxtw #2
        (0x9b02_0c20, &[(1, 10), (2, 24), (3, 0x3000)], 0x30f0), // madd x0, x1, x2, x3
        (0x9ba2_0c20, &[(1, 10), (2, 24), (3, 0x3000)], 0x30f0), // umaddl x0, w1, w2, x3
        (0xd37c_1c20, &[(1, 0x123)], 0x230),   // ubfiz x0, x1, #4, #8
        (0x9340_7c20, &[(1, 0x3000)], 0x3000), // sxtw x0, w1
        (0xd34c_fc20, &[(1, 0x300_0000)], 0x3000), // lsr x0, x1, #12
        (0xd2a2_4680, &[], 0x1234_0000),       // movz x0, #0x1234, lsl #16
        (0x927c_2c20, &[(1, 0x12345)], 0x2340), // and x0, x1, #0xfff0
        (0x2a01_03e0, &[(1, 0xf_0000_3000)], 0x3000), // mov w0, w1: the upper half is cleared
        (0x9204_cc20, &[(1, 0xff)], 0xf0),     // and x0, x1, #0xf0f0...f0
        (0xca82_1020, &[(1, 0x3000), (2, 0x10)], 0x3001), // eor x0, x1, x2, asr #4
        (0x8a22_0020, &[(1, 0x3fff), (2, 0xfff)], 0x3000), // bic x0, x1, x2
        (0xd000_0000, &[], (BIAS + START + 0x2000) & ADDRESS), // adrp x0, two pages on
    ];
    for (word, recorded, base) in made {
        let recorded = [recorded, &[(0, 5)]].concat();
        assert_eq!(at_end(&[word, LOAD], &recorded), at(base + 8), "{word:#x}");
    }
    // movz x0, #0x1234, lsl #16; movk x0, #0x5678
    assert_eq!(at_end(&[0xd2a2_4680, 0xf28a_cf00, LOAD], &[(0, 5)]), at(0x1234_5680));
    // adrp x0, the page before; add x0, x0, #0x10
    assert_eq!(at_end(&[0xf0ff_ffe0, 0x9100_4000, LOAD], &[(0, 5)]), at(BIAS + 0x18));
    // A constant that was subtracted since: ldr w0, [x1, #8] is before it in the same block
    assert_eq!(at_end(&[0xd100_4021, 0xb940_0820], &[(1, 0x2000)]), at(0x2008));
}

#[test]
fn control_flow() {
    // 1000 b.ne 1008; 1004 ret; 1008 ldr w0, [x1, #8]; 100c cbz x0, 1014; 1010 bl 1018; 1014 nop; 1018 svc; 101c nop
    let code = [
        0x5400_0041,
        0xd65f_03c0,
        0xb940_0820,
        0xb400_0040,
        0x9400_0002,
        0xd503_201f,
        0xd400_0001,
        0xd503_201f,
    ];
    let function = decode(&code, &|_| None);
    let before = |address| function.predecessors(function.position(address).expect("an instruction"));
    assert_eq!(before(0x1000), None, "the entry");
    assert_eq!(before(0x1004), Some(vec![0]));
    assert_eq!(before(0x1008), Some(vec![0]), "behind a return: from the jump only");
    assert_eq!(before(0x1014), Some(vec![3]), "behind a call: from the jump only");
    assert_eq!(before(0x101c), None, "behind a system call");
    assert_eq!(function.position(0x1002), None);
    let (mask, values) = values(&[(1, 0x2000)]);
    let registers = Registers { abi: 2, mask, values: &values };
    let load = |position| blame(&function, position, &registers, 0, Landing::Behind);
    assert!(matches!(load(3), Ok(Some(blamed)) if blamed.load == 0x1008));
    assert_eq!(load(4), Ok(None), "the branch that was not taken ran last");
    // Literal data inside code is not an instruction: nothing passes from it.
    assert!(Arm::is_invalid(&Instruction { address: 0, word: 0x1234 }));
}

#[test]
fn a_jump_table_has_as_many_entries_as_are_compared() {
    // 1000 cmp w0, #2; 1004 b.ls 100c; 1008 ret
    // 100c adrp x2, 2000; 1010 add x2, x2, #0; 1014 ldrb w2, [x2, w0, uxtw]; 1018 adr x0, 1024
    // 101c add x2, x0, w2, sxtb #2; 1020 br x2; 1024 three cases of two instructions each; each falls into the next
    let code = [
        0x7100_081f,
        0x5400_0049,
        0xd65f_03c0,
        0xb000_0002,
        0x9100_0042,
        0x3860_4842,
        0x1000_0060,
        0x8b22_8802,
        0xd61f_0040,
        0xd503_201f,
        0xd503_201f,
        0xd503_201f,
        0xd503_201f,
        0xd503_201f,
        0xd503_201f,
    ];
    // The byte behind the table is not an entry: it would lead to 1030.
    let word = |address: u64| Some(0x0304_0200i32.checked_shr(8 * (address as u32 - 0x2000)).unwrap_or(0));
    let function = decode(&code, &word);
    let arrives_from_elsewhere =
        |address| function.predecessors(function.position(address).unwrap()).is_none();
    assert!([0x1024, 0x102c, 0x1034].into_iter().all(arrives_from_elsewhere), "entries 0, 2 and 4");
    assert_eq!(function.predecessors(function.position(0x1028).unwrap()), Some(vec![9]));
    assert_eq!(function.predecessors(function.position(0x1030).unwrap()), Some(vec![11]));
    assert_eq!(function.predecessors(function.position(0x100c).unwrap()), Some(vec![1]));
}

#[test]
fn random_code_and_registers_never_panic() {
    let mut random = crate::stall::random_numbers();
    let (mut blamed, mut asked) = (0, 0);
    for round in 0..4_000u32 {
        // Loads, arithmetic, branches and anything else in turn.
        let fixed = [0x3800_0000, 0x1000_0000, 0x0a00_0000, 0x1400_0000];
        let masks = [0x3a00_0000, 0x1c00_0000, 0x0e00_0000, 0x1c00_0000];
        let code: Vec<u8> = (0..24)
            .map(|_| {
                let (word, class) = (random() as u32, (random() % 5) as usize);
                if class < 4 {
                    word & !masks[class] | fixed[class]
                } else {
                    word
                }
            })
            .flat_map(u32::to_le_bytes)
            .collect();
        let start = random() & !3;
        let values: Vec<[u8; 8]> = (0..33).map(|_| random().to_ne_bytes()).collect();
        let mask = Architecture::Aarch64.general_mask();
        let registers = Registers { abi: 2, mask, values: &values };
        let word = random() as i32;
        let function: Function<Arm> = Function::decode(&code, start, &|_| Some(word));
        for position in 0..code.len() / 4 {
            let landing = if round % 2 == 0 { Landing::Behind } else { Landing::At };
            asked += 1;
            blamed +=
                u32::from(matches!(blame(&function, position, &registers, random(), landing), Ok(Some(_))));
        }
    }
    assert!(asked > 10_000 && blamed > asked / 20, "{blamed} of {asked}");
}

//! Loads and addresses that the stall finder computes from registers after a load, compared with the executed ones:
//! a stripped program is single-stepped, so that every instruction and the registers before it are known.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use hardmeter_samples::model::{
    CpuMode, FileOffset, Landing, Mmap, Pid, Record, Register, Registers, Tid, VirtualAddress,
};
use hardmeter_symbols::{disassemble, Access, ImageAddress, RegisterMoment, StallFinder, Syntax};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

const STEPS: usize = 40_000;

/// A child that is stopped, and can be stepped.
struct Stepped(Child);

impl Stepped {
    /// Starts a shell that counts, and stops it in the middle of it. `None`, with the reason printed, where tracing is
    /// forbidden.
    fn start() -> Option<Stepped> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "i=0; while :; do i=$((i + 1)); [ $i -gt 900 ] && i=0; done"]);
        // SAFETY: one system call between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                println!("skipped: a child cannot be traced here: {error}");
                return None;
            }
        };
        let stepped = Stepped(child);
        stepped.wait(); // at its exec
                        // SAFETY: our own child, stopped.
        unsafe { libc::ptrace(libc::PTRACE_CONT, stepped.pid(), 0, 0) };
        while stepped.cpu_ticks() < 5 {
            std::thread::sleep(Duration::from_millis(10)); // before, it may still be in the dynamic linker
        }
        // SAFETY: our own child.
        unsafe { libc::kill(stepped.pid(), libc::SIGSTOP) };
        stepped.wait();
        Some(stepped)
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Processor time of the child, in hundredths of a second.
    fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("stat");
        let fields = stat.rsplit(") ").next().expect("fields").split(' ');
        fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }

    fn wait(&self) {
        let mut status = 0;
        // SAFETY: our own child, and room for its status.
        let waited = unsafe { libc::waitpid(self.pid(), &mut status, 0) };
        assert!(waited == self.pid() && libc::WIFSTOPPED(status), "the child stops: {status:#x}");
    }

    fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: plain data, filled in by the kernel.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            let asked = libc::ptrace(libc::PTRACE_GETREGS, self.pid(), 0, &mut registers);
            assert_eq!(asked, 0);
            registers
        }
    }

    fn step(&self) {
        // SAFETY: our own child, stopped.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid(), 0, 0) }, 0);
        self.wait();
    }

    fn code(&self, address: u64) -> Option<[u8; 15]> {
        use std::os::unix::fs::FileExt;
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).ok()?;
        let mut code = [0; 15];
        memory.read_exact_at(&mut code, address).ok()?;
        Some(code)
    }

    fn mappings(&self) -> Vec<Mmap> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("maps");
        let mapping = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = fields[0].split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some(Mmap {
                pid: Pid(self.pid()),
                tid: Tid(self.pid()),
                mode: CpuMode::User,
                start: VirtualAddress(number(start)?),
                length: number(end)? - number(start)?,
                offset: FileOffset(number(fields[2])?),
                executable: fields[1].contains('x'),
                protection: None,
                flags: None,
                build_id: None,
                path: fields.get(5).copied().unwrap_or("//anon").to_string(),
                time: None,
            })
        };
        maps.lines().filter_map(mapping).collect()
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The registers in the layout of a sample.
fn values(registers: &libc::user_regs_struct) -> Vec<[u8; 8]> {
    let value = |register| match register {
        Register::Rax => registers.rax,
        Register::Rbx => registers.rbx,
        Register::Rcx => registers.rcx,
        Register::Rdx => registers.rdx,
        Register::Rsi => registers.rsi,
        Register::Rdi => registers.rdi,
        Register::Rbp => registers.rbp,
        Register::Rsp => registers.rsp,
        Register::Rip => registers.rip,
        Register::Rflags => registers.eflags,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::Cs | Register::Ss => 0,
    };
    let mut all = Register::GENERAL;
    all.sort_by_key(|register| *register as u8);
    all.into_iter().map(|register| value(register).to_ne_bytes()).collect()
}

#[test]
fn loads_and_addresses_are_those_that_ran() {
    let Some(child) = Stepped::start() else { return };
    let mut finder = StallFinder::new();
    child.mappings().into_iter().for_each(|mapping| finder.observe(&Record::Mmap(mapping)));
    let mut before = child.registers();
    // Executed loads; those found; found with an address; found where none was executed.
    let (mut loads, mut found, mut addressed, mut invented) = (0, 0, 0, 0);
    for _ in 0..STEPS {
        child.step();
        let after = child.registers();
        let (ran_at, ran_with) = (before.rip, values(&before));
        before = after;
        if after.rip == ran_at {
            continue; // one iteration of a repeated string instruction
        }
        let Some(code) = child.code(ran_at) else { continue };
        let ran = &disassemble(&code, ImageAddress(ran_at), Syntax::Att)[0];
        let of = |values| Registers { abi: 2, mask: Register::general_mask(), values };
        let is_read = |access| matches!(access, Access::Read | Access::ReadWrite);
        let true_addresses: Vec<VirtualAddress> = ran
            .memory
            .iter()
            .filter(|operand| is_read(operand.access))
            .filter_map(|operand| {
                let moment = RegisterMoment::Before;
                ran.recompute_operand(operand, VirtualAddress(ran_at), &of(&ran_with), moment).ok()
            })
            .collect();
        let returns = ran.text.starts_with("ret");
        loads += usize::from(!true_addresses.is_empty() && !returns);
        let now = values(&after);
        let answer = finder.find(Pid(child.pid()), VirtualAddress(after.rip), &of(&now), Landing::Behind);
        let Ok(Some(load)) = answer else { continue };
        if load.instruction.0 != ran_at {
            // A fused comparison, or a place with several predecessors, one of them a load.
            invented += usize::from(!ran.text.starts_with('j'));
            continue;
        }
        found += 1;
        if let Ok(address) = load.address {
            addressed += 1;
            assert!(
                true_addresses.contains(&address),
                "{:#x} {}: computed {address:?}, ran with {true_addresses:?}",
                ran_at,
                ran.text
            );
        }
    }
    eprintln!("{STEPS} steps: {loads} loads, {found} found, {addressed} with the right address, {invented} invented");
    assert!(loads > STEPS / 10, "{loads}");
    assert!(found * 100 >= loads * 85, "{found} of {loads} loads were found");
    assert!(addressed * 100 >= found * 80, "{addressed} of {found} loads have an address");
    assert!(invented * 100 <= found * 10, "{invented} loads that did not run, beside {found}");
}

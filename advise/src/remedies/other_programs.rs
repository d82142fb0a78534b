//! Other programs of the machine keep backends from the CPUs.
//!
//! Rule: on average programs that are not the server's use half of the machine's CPUs or more, a quarter of
//! the backends' active time or more is run queue, and no quota or mask of CPUs limits the server, whose run queue
//! would be its own. A client of the load that runs on the same machine is such a program, and uses less than that
//! in a healthy case.

use crate::{Advice, Audience, Evidence, Kind, Look, Prediction, Program, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "other-programs",
    title: "move other programs off the server's CPUs",
    audience: Audience::Operator,
    documentation: "https://www.freedesktop.org/software/systemd/man/latest/systemd.resource-control.html",
    examine,
};

const LEAST_CPUS: f64 = 0.5;
const LEAST_QUEUE: f64 = 0.25;
/// Processes of one program in a command.
const MOST_PIDS: usize = 8;

fn examine(look: &Look) -> Option<Advice> {
    let machine = look.machine.as_ref()?;
    let cpus = look.server.cpus as f64;
    let queue = look.time.of_active(&[Kind::RunQueue]);
    if machine.others < LEAST_CPUS * cpus || queue < LEAST_QUEUE || !machine.unlimited {
        return None;
    }
    let of_others = machine.of_others();
    let words = |program: &Program| {
        let of = match &*program.name {
            "postgres" | "postmaster" | "mariadbd" => " of another server",
            _ => "",
        };
        format!("{}{}{of} {:.2}", if program.client { "client " } else { "" }, program.name, program.cpus)
    };
    let programs: Vec<String> = machine.programs.iter().map(words).collect();
    let named = match (programs.is_empty(), machine.all_visible) {
        (false, _) => programs.join(", "),
        (true, true) => "each briefly".into(),
        (true, false) => "not visible from this container".into(),
    };
    let renice = |to: i32| {
        // A client with less CPU time sends less.
        let others = machine.programs.iter().filter(|program| !program.client && !program.pids.is_empty());
        others.map(move |program| {
            let pids: Vec<String> = program.pids.iter().take(MOST_PIDS).map(i32::to_string).collect();
            let more = if program.pids.len() > MOST_PIDS { " ..." } else { "" };
            format!("renice -n {to} -p {}  # {}{more}, if it is no client", pids.join(" "), program.name)
        })
    };
    let mut apply =
        vec!["-- run these programs elsewhere or at another time; or let the server go first:".into()];
    apply.extend(renice(10));
    apply.push(
        "-- between services: systemctl set-property SERVICE CPUWeight=1000 (the usual weight is 100)".into(),
    );
    let mut undo: Vec<String> = renice(0).collect();
    undo.push("-- systemctl set-property SERVICE CPUWeight=".into());
    let mut evidence = vec![
        Evidence::new("CPUs used by other programs", machine.others, "", 2),
        Evidence::new("CPUs used by those that are not named", machine.unnamed(), "", 2),
        Evidence::new("CPUs used by the server", machine.server, "", 2),
        Evidence::new("run queue, of active time", queue * 100.0, "%", look.time.busy),
    ];
    if machine.stolen >= 0.05 * cpus {
        evidence.push(Evidence::new("CPUs taken by the hypervisor", machine.stolen, "", 2));
    }
    Some(Advice {
        finding: format!(
            "run queue {:.0} %: other programs use {:.1} of {cpus:.0} CPUs ({named})",
            queue * 100.0,
            machine.others
        ),
        evidence,
        prediction: Prediction::gain(
            queue * of_others,
            format!("latency in the server -{:.0} %", queue * of_others * 100.0),
            format!(
                "the server waits for a CPU as long as the CPUs are used by others: {:.0} % of the used time",
                of_others * 100.0
            ),
        ),
        apply,
        undo,
        risk: "these programs take longer".into(),
        ..Advice::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Server, Share, TimeShares};

    fn look(others: f64, queue: f64) -> Look {
        let share = |kind, seconds| Share { kind, event: String::new(), seconds, n: 1 };
        let shares = vec![share(Kind::RunQueue, queue), share(Kind::RunningUser, 100.0 - queue)];
        let rustc = Program { name: "rustc".into(), cpus: others, pids: vec![7, 8], client: false };
        let client = Program { name: "pgbench".into(), cpus: 0.1, pids: vec![9], client: true };
        Look {
            server: Server { cpus: 2, local: true, ..Server::default() },
            machine: Some(Machine {
                server: 0.5,
                others,
                stolen: 0.0,
                programs: vec![rustc, client],
                all_visible: true,
                unlimited: true,
            }),
            time: TimeShares { total: 100.0, shares, ..TimeShares::default() },
            ..Look::default()
        }
    }

    #[test]
    fn who_uses_the_cpus_is_named_and_the_wait_for_them_predicted() {
        let advice = examine(&look(1.5, 60.0)).unwrap();
        assert!(
            advice.finding.contains(
                "run queue 60 %: other programs use 1.5 of 2 CPUs (rustc 1.50, client pgbench 0.10)"
            ),
            "{}",
            advice.finding
        );
        // 1.5 of 2.0 used CPUs are theirs.
        assert_eq!(advice.prediction.gain, Some(0.6 * 0.75));
        assert_eq!(advice.apply[1], "renice -n 10 -p 7 8  # rustc, if it is no client");
        assert!(
            !advice.apply.concat().contains("pgbench"),
            "a client is not slowed down: {:?}",
            advice.apply
        );
        assert_eq!(examine(&look(0.9, 60.0)), None, "less than half of the CPUs");
        assert_eq!(examine(&look(1.5, 20.0)), None, "backends do not wait");
        let mut limited = look(1.5, 60.0);
        limited.machine.as_mut().unwrap().unlimited = false;
        assert_eq!(examine(&limited), None, "its quota may be the reason");
        assert_eq!(examine(&Look { machine: None, ..look(1.5, 60.0) }), None, "another machine");
    }
}

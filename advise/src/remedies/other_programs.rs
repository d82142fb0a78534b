//! Other programs of the machine keep backends from the CPUs.
//!
//! Rule: on average programs that are not the server's use half of the machine's CPUs or more, and a quarter of
//! the backends' active time or more is run queue. A client of the load that runs on the same machine is such a
//! program, and uses less than that in a healthy case (pgbench: a third of what it makes the server use).

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

fn examine(look: &Look) -> Option<Advice> {
    let machine = look.machine.as_ref()?;
    let cpus = look.server.cpus as f64;
    let queue = look.time.of_active(&[Kind::RunQueue]);
    if machine.others < LEAST_CPUS * cpus || queue < LEAST_QUEUE {
        return None;
    }
    let of_others = machine.of_others();
    let words = |program: &Program| {
        format!("{}{} {:.2}", if program.client { "client " } else { "" }, program.name, program.cpus)
    };
    let programs: Vec<String> = machine.programs.iter().map(words).collect();
    let named = if programs.is_empty() { "each briefly".into() } else { programs.join(", ") };
    let renice = |to: i32| {
        // A client with less CPU time sends less.
        machine.programs.iter().filter(|program| !program.client).map(move |program| {
            let name = program.name.replace('\'', "'\\''");
            format!("renice -n {to} -p $(pgrep -x '{name}')")
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
        Evidence::new("CPUs used by those that are not named, most ended", machine.unnamed(), "", 2),
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
        let rustc = Program { name: "rustc".into(), cpus: others, client: false };
        let client = Program { name: "pgbench".into(), cpus: 0.1, client: true };
        Look {
            server: Server { cpus: 2, local: true, ..Server::default() },
            machine: Some(Machine { server: 0.5, others, stolen: 0.0, programs: vec![rustc, client] }),
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
        assert_eq!(advice.apply[1], "renice -n 10 -p $(pgrep -x 'rustc')");
        assert!(
            !advice.apply.concat().contains("pgbench"),
            "a client is not slowed down: {:?}",
            advice.apply
        );
        assert_eq!(examine(&look(0.9, 60.0)), None, "less than half of the CPUs");
        assert_eq!(examine(&look(1.5, 20.0)), None, "backends do not wait");
        assert_eq!(examine(&Look { machine: None, ..look(1.5, 60.0) }), None, "another machine");
    }
}

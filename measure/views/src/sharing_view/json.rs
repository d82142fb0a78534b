//! The report on sharing for machines.

use super::movement::movement_text;
use super::text::{effect_text, verdict_text};
use super::SharingReport;
use crate::top_view::remark_json;
use hardmeter_answers::Share;
use hardmeter_answers::{AccessReport, CodeName, LineReport};
use hardmeter_evidence::envelope::envelope;
use serde_json::{json, Value as Json};

impl SharingReport {
    /// The report as JSON: every shown line, completely.
    pub fn json(&self) -> Json {
        envelope(
            "sharing",
            1,
            json!({
                "capture": self.heading,
                "filter": self.filter,
                "total": self.total,
                "contended_lines": self.contended,
                "one_event_in": self.one_in,
                "sentences": self.sentences(),
                "lines": self.lines().iter().map(|line| self.line_json(line)).collect::<Vec<_>>(),
                "missing": self.missing,
                "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
            }),
        )
    }

    fn line_json(&self, line: &LineReport) -> Json {
        let fights: Vec<Json> = line
            .fights
            .iter()
            .map(|fight| {
                json!({
                    "waiting": code_json(fight.waiting.as_ref()),
                    "writing": code_json(fight.writing.as_ref()),
                    "misses": fight.misses,
                    "false_sharing": fight.false_sharing,
                })
            })
            .collect();
        let layout = line.effect.as_ref().map(|effect| {
            let groups: Vec<Json> = line
                .groups
                .iter()
                .map(|group| {
                    let mut object = json!(group.group);
                    object["objects"] = json!(group.objects);
                    object
                })
                .collect();
            json!({
                "groups": groups,
                "misses_before": effect.before,
                "misses_after": effect.after,
                "misses_new": effect.new,
                "vanishing": Share { count: effect.vanishing(), total: effect.before },
                "vanishing_of_all": Share { count: effect.vanishing(), total: self.total.misses },
                "basis": effect.basis,
                "text": effect_text(effect, self.total.misses),
            })
        });
        json!({
            "line": line.line,
            "identified_by": line.line.identified_by(),
            "address": line.address.map(|(_, address)| address.to_string()),
            "pid": line.address.map(|(pid, _)| pid),
            "counts": line.counts,
            "share": Share { count: line.counts.misses, total: self.total.misses },
            "mean_latency": line.counts.mean_latency(),
            "verdict": {
                "kind": line.verdict.kind,
                "evidence": line.verdict.evidence,
                "text": verdict_text(&line.verdict),
            },
            "movement": line.movement.map(|movement| {
                let mut object = json!(movement);
                object["text"] = json!(movement_text(&movement, line.verdict.kind));
                object
            }),
            "objects": line.objects,
            "accesses": line.accesses.iter().map(access_json).collect::<Vec<_>>(),
            "fights": fights,
            "fights_exact": line.fights_exact,
            "layout": layout,
        })
    }
}

fn code_json(code: Option<&CodeName>) -> Json {
    code.map_or(Json::Null, |code| json!({ "routine": code.routine, "line": code.line }))
}

fn access_json(row: &AccessReport) -> Json {
    let access = &row.access;
    json!({
        "bytes": access.range,
        "width_known": access.size_known,
        "loads": access.reads,
        "stores": access.writes,
        "counts": access.counts,
        "blamed": access.blamed,
        "other_samples": access.accesses,
        "mean_latency": access.counts.mean_latency(),
        "code": code_json(row.code.as_ref()),
        "instruction": row.instruction,
        "process": access.process,
        "pids": access.pids,
        "object": row.object,
    })
}

//! The answer for machines.

use super::{explain, remedy, sentences, WhyReport};
use crate::top_view::remark_json;
use hardmeter_answers::why::{EventAnswer, Missing, SetsUnknown};
use hardmeter_evidence::envelope::envelope;
use serde_json::{json, Value as Json};

impl WhyReport {
    /// The report for machines: everything, shown or not.
    pub fn json(&self) -> Json {
        envelope(
            "why",
            1,
            json!({
                "capture": self.heading,
                "filter": self.filter,
                "geometry": self.hierarchy,
                "sentences": sentences::of(self),
                "events": self.events.iter().map(|answer| self.event_json(answer)).collect::<Vec<_>>(),
                "reuse": self.reuse,
                "page_walks": self.page_walks,
                "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
            }),
        )
    }

    fn event_json(&self, answer: &EventAnswer) -> Json {
        let causes: Vec<Json> = answer
            .causes
            .iter()
            .map(|cause| {
                let mut object = json!(cause);
                object["statements"] = cause
                    .statements
                    .iter()
                    .map(|(hash, count)| {
                        json!({
                            "statement": self.statement(*hash),
                            "hash": format!("{:016x}", hash.0),
                            "count": count,
                        })
                    })
                    .collect();
                object["how"] = json!(explain::how(answer.how, cause));
                object["remedy"] = json!(remedy::of_cause(answer, cause, self.geometry_of(answer)));
                object
            })
            .collect();
        let mut object = json!(answer);
        object["event"] = json!(self.event_name(answer));
        object["causes"] = json!(causes);
        object["missing"] = answer.missing.iter().map(|missing| missing_json(*missing)).collect();
        object["sets"] = match &answer.sets {
            Ok(map) => {
                let mut sets = json!(map);
                // As text: JSON's numbers lose bits above 2^53.
                for (set, shown) in map.standing_out.iter().zip(array(&mut sets["standing_out"])) {
                    for (line, shown) in set.lines.iter().zip(array(&mut shown["lines"])) {
                        shown["address"] = json!(line.address.to_string());
                    }
                }
                sets["text"] = json!(explain::geometry(map.level, map.geometry));
                sets
            }
            Err(SetsUnknown::NoLevel) => Json::Null,
            Err(reason) => json!({
                "unknown": reason,
                "text": explain::sets_unknown(*reason, answer.kind.level()),
            }),
        };
        object
    }
}

fn array(value: &mut Json) -> &mut [Json] {
    value.as_array_mut().map_or(&mut [], |array| array.as_mut_slice())
}

fn missing_json(missing: Missing) -> Json {
    let mut object = json!(missing);
    object["text"] = json!(explain::missing(missing));
    object
}

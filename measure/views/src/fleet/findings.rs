//! The table `findings`: the objects and routines that cost most, for each event of a capture.

use super::table::{optional, required, Batch, ColumnKind, FleetColumn, Texts};
use super::EventSums;
use crate::CaptureIdentity;
use hardmeter_answers::{
    Capture, CodeMap, Object, ObjectCount, ObjectLevel, Pass, Place, Ranking, Share, SymbolNames,
};
use hardmeter_samples::model::{EventIndex, Sample, StatementId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The columns, in their order.
pub const FINDING_COLUMNS: [FleetColumn; 19] = [
    required("capture", ColumnKind::Text, "id of the capture"),
    optional("host", ColumnKind::Text, "as in `samples`"),
    optional("release", ColumnKind::Text, "as in `samples`"),
    optional("recorded_at", ColumnKind::Moment, "as in `samples`"),
    required("event", ColumnKind::Text, "the event"),
    required("rank", ColumnKind::Short, "1 is the strongest of its event and kind"),
    required("kind", ColumnKind::Text, "object or routine"),
    optional("object_class", ColumnKind::Text, "class of an object"),
    optional("name", ColumnKind::Text, "name of the object or routine"),
    required("samples", ColumnKind::Whole, "its samples"),
    required(
        "of_samples",
        ColumnKind::Whole,
        "of this many: objects of those with a data address, routines of all",
    ),
    optional("share_low", ColumnKind::Real, "lower end of the 95 % interval of samples / of_samples"),
    optional("share_high", ColumnKind::Real, "its upper end"),
    optional("stall_pct", ColumnKind::Real, "its part of the event's stall cycles, where they are known"),
    optional("part", ColumnKind::Text, "the part with most of its samples"),
    optional("cause", ColumnKind::Text, "its most frequent cause, where it was simulated"),
    optional("statement_id", ColumnKind::Text, "the statement with most of its samples"),
    optional("statement", ColumnKind::Text, "its text without constants"),
    optional(
        "samples_per_transaction",
        ColumnKind::Real,
        "samples / transactions, where the server counted them",
    ),
];

/// Routines listed for each event.
const ROUTINES: usize = 3;

/// Counts the samples for findings.
pub(super) struct FindingTable {
    objects: ObjectCount,
    /// Samples and latencies by event and place.
    places: FxHashMap<(EventIndex, Place), (u64, u64)>,
}

/// One finding.
#[derive(Default)]
struct Finding {
    kind: &'static str,
    class: Option<String>,
    name: String,
    share: Option<Share>,
    stall_pct: Option<f64>,
    part: Option<String>,
    cause: Option<&'static str>,
    statement: Option<StatementId>,
}

impl FindingTable {
    pub(super) fn new(line_size: u32) -> FindingTable {
        FindingTable { objects: ObjectCount::new(Vec::new(), line_size), places: FxHashMap::default() }
    }

    pub(super) fn add(
        &mut self,
        sample: &Sample<'_>,
        place: Option<Place>,
        object: Option<Object>,
        statement: Option<StatementId>,
        pass: &mut Pass<SymbolNames>,
    ) {
        self.objects.add(sample, object, statement, pass.objects());
        if let Some(place) = place {
            let sums = self.places.entry((sample.event, place)).or_default();
            sums.0 += 1;
            sums.1 = sums.1.saturating_add(sample.weight.map_or(0, |weight| weight.latency.0));
        }
    }

    /// The rows of a capture.
    pub(super) fn batch(
        &self,
        facts: &CaptureIdentity,
        sums: &[EventSums],
        capture: &Capture,
        pass: &mut Pass<SymbolNames>,
    ) -> Batch {
        let (mut texts, mut batch) = (Texts::default(), Batch::new(&FINDING_COLUMNS));
        for (number, sums) in sums.iter().enumerate().filter(|(_, sums)| sums.samples > 0) {
            let event = EventIndex(number);
            let groups =
                [self.of_objects(event, capture, pass), self.of_routines(event, sums, capture, pass)];
            for (rank, finding) in groups.iter().flat_map(|group| group.iter().enumerate()) {
                let share = finding.share.unwrap_or(Share { count: 0, total: 0 });
                let interval = share.interval();
                let statement = finding.statement.map(|id| (id.to_string(), pass.statements().text(id)));
                batch.begin();
                batch.text(Some(texts.number(&facts.id)));
                batch.text(texts.some(facts.host.as_deref()));
                batch.text(texts.some(facts.release.as_deref()));
                batch.whole(facts.recorded_at_us);
                batch.text(Some(texts.number(&sums.name)));
                batch.short(Some(rank as i32 + 1));
                batch.text(Some(texts.number(finding.kind)));
                batch.text(texts.some(finding.class.as_deref()));
                batch.text(texts.some(Some(&finding.name)));
                batch.bits(Some(share.count));
                batch.bits(Some(share.total));
                batch.real(interval.map(|interval| interval.low));
                batch.real(interval.map(|interval| interval.high));
                batch.real(finding.stall_pct);
                batch.text(texts.some(finding.part.as_deref()));
                batch.text(texts.some(finding.cause));
                batch.text(texts.some(statement.as_ref().map(|(id, _)| id.as_str())));
                batch.text(texts.some(statement.as_ref().map(|(_, text)| &**text)));
                batch.real(facts.transactions.map(|transactions| share.count as f64 / transactions));
                batch.end();
            }
        }
        batch.add_texts(texts.take_new());
        batch
    }

    fn of_objects(&self, event: EventIndex, capture: &Capture, pass: &mut Pass<SymbolNames>) -> Vec<Finding> {
        let table =
            self.objects.table(event, &[ObjectLevel::Class], (Some(0), capture.ranking()), pass.objects());
        let finding = |found: hardmeter_answers::ObjectFinding| Finding {
            kind: "object",
            class: Some(found.class.to_string()),
            name: found.name.to_string(),
            share: Some(found.share),
            stall_pct: found.stall.map(|stall| stall.percent),
            part: found.part.map(|(part, _)| part.to_string()),
            cause: found.cause.map(|(cause, _)| super::cause_name(cause)),
            statement: found.statement.map(|(statement, _)| statement),
        };
        table.findings.into_iter().map(finding).collect()
    }

    fn of_routines(
        &self,
        event: EventIndex,
        sums: &EventSums,
        capture: &Capture,
        pass: &mut Pass<SymbolNames>,
    ) -> Vec<Finding> {
        let mut routines: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for ((of, place), (samples, latency)) in &self.places {
            if *of == event {
                let sums = routines.entry(pass.map().routine(*place).to_string()).or_default();
                *sums = (sums.0 + samples, sums.1.saturating_add(*latency));
            }
        }
        let stall = capture.ranking() == Ranking::Stall;
        let mut order: Vec<_> = routines.into_iter().collect();
        let size = |sums: (u64, u64)| if stall { (sums.1, sums.0) } else { (sums.0, 0) };
        order.sort_by(|(a, x), (b, y)| size(*y).cmp(&size(*x)).then_with(|| a.cmp(b)));
        order.truncate(ROUTINES);
        let finding = |(name, (samples, latency)): (String, (u64, u64))| Finding {
            kind: "routine",
            name,
            share: Some(Share { count: samples, total: sums.samples }),
            stall_pct: (stall && sums.latency > 0).then(|| latency as f64 * 100.0 / sums.latency as f64),
            ..Finding::default()
        };
        order.into_iter().map(finding).collect()
    }
}

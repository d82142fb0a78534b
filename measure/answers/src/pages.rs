//! All samples on the pages of one relation, folded onto one page.
//!
//! ```text
//!   block 0    |header|lp lp lp ...|      free space      |tuple|tuple|
//!   block 7    |header|lp lp ...|        free space     |tuple|tuple  |      each sample at its offset from
//! the
//!   block 9    |header|lp lp lp lp|    free space   |tuple|tuple|tuple|      start of its page
//!              ------------------------------------------------------
//!   one page   |  12  | 340  0   3         0            17     5    9 |
//! ```

use crate::estimate::Share;
use crate::objects::{Object, ObjectIndex};
use hardmeter_samples::model::{EventIndex, Sample};
use hardmeter_samples::object_notes::{ObjectNotes, TextId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A relation whose pages can be drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Relation {
    /// Its name, as in the names of objects.
    pub name: String,
    /// The kind of relation: "table", "btree index".
    pub kind: String,
    /// Bytes of a page.
    pub page_size: u32,
}

/// The reason why a name leads to no relation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelationError {
    /// Several relations have this name.
    #[error("\"{wanted}\" may be any of {candidates}; name one of them in full")]
    Ambiguous {
        /// The name.
        wanted: String,
        /// The full names of the candidates.
        candidates: String,
    },
    /// No relation has this name.
    #[error("no relation \"{wanted}\" was sampled; {candidates}")]
    Unknown {
        /// The name.
        wanted: String,
        /// The existing relations.
        candidates: String,
    },
    /// The side file has no relations.
    #[error("the capture has no side file with tables and indexes")]
    None,
}

/// Maximum page size of any supported server; a side file with a larger one is damaged.
const PAGE_AT_MOST: u32 = 1 << 20;

/// The relations of a side file, by name.
pub fn relations(notes: &ObjectNotes) -> Vec<Relation> {
    let mut relations: BTreeMap<&str, Relation> = BTreeMap::new();
    for page in &notes.pages {
        let name = notes.text(page.relation);
        if name.is_empty() || !(1..=PAGE_AT_MOST).contains(&page.page_size) {
            continue;
        }
        let relation = || Relation {
            name: name.to_string(),
            kind: notes.text(page.kind).to_string(),
            page_size: page.page_size,
        };
        relations.entry(name).or_insert_with(relation);
    }
    relations.into_values().collect()
}

/// Finds a relation by its full name, or by its name without schema.
///
/// # Errors
///
/// [`RelationError`] if no relation has that name, or several in different schemas have it.
pub fn find_relation<'r>(wanted: &str, relations: &'r [Relation]) -> Result<&'r Relation, RelationError> {
    const SHOWN: usize = 10;
    let listed = |found: &[&Relation]| {
        // Names are untrusted and this text goes to a terminal: replace control characters.
        let plain = |name: &str| name.replace(char::is_control, "\u{fffd}");
        let names: Vec<String> = found.iter().take(SHOWN).map(|relation| plain(&relation.name)).collect();
        let more =
            if found.len() > SHOWN { format!(" and {} more", found.len() - SHOWN) } else { String::new() };
        names.join(", ") + &more
    };
    if relations.is_empty() {
        return Err(RelationError::None);
    }
    if let Some(exact) = relations.iter().find(|relation| relation.name == wanted) {
        return Ok(exact);
    }
    let without_schema =
        |relation: &&Relation| relation.name.strip_suffix(wanted).is_some_and(|rest| rest.ends_with('.'));
    let found: Vec<&Relation> = relations.iter().filter(without_schema).collect();
    let wanted = wanted.to_string();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let similar: Vec<&Relation> =
                relations.iter().filter(|relation| relation.name.contains(&wanted)).collect();
            let candidates = match similar.is_empty() {
                true => format!("there are {}", listed(&relations.iter().collect::<Vec<_>>())),
                false => format!("similar: {}", listed(&similar)),
            };
            Err(RelationError::Unknown { wanted, candidates })
        }
        several => Err(RelationError::Ambiguous { wanted, candidates: listed(several) }),
    }
}

/// One part of the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PagePart {
    /// The part: "line pointers", "column abalance".
    pub name: Arc<str>,
    /// Its samples, of all on the relation's pages.
    pub share: Share,
    /// On how many distinct blocks they are.
    pub blocks: u64,
    /// The lowest and the highest offset sampled.
    pub offsets: (u32, u32),
    /// The blocks with most samples.
    pub hottest: Vec<(Arc<str>, u64)>,
}

/// One line of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PageLine {
    /// Its samples.
    pub count: u64,
    /// The parts sampled on it, those with most samples first, by their position in [`FoldedPage::parts`].
    pub parts: Vec<usize>,
}

/// The samples of one event, on one page that stands for all pages of a relation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoldedPage {
    /// The event.
    pub event: EventIndex,
    /// Bytes of a line.
    pub line_size: u32,
    /// Samples on the relation's pages, of all with a data address.
    pub share: Share,
    /// Share of them that were certainly on these pages.
    pub stable: Share,
    /// Distinct blocks sampled.
    pub blocks: u64,
    /// The blocks with most samples.
    pub hottest: Vec<(Arc<str>, u64)>,
    /// Samples by byte, for every byte of the page.
    #[serde(skip)]
    pub bytes: Vec<u64>,
    /// Samples by line.
    pub lines: Vec<PageLine>,
    /// The parts, those with most samples first.
    pub parts: Vec<PagePart>,
}

#[derive(Clone, Debug, Default)]
struct EventPage {
    with_address: u64,
    count: u64,
    stable: u64,
    bytes: Vec<u64>,
    /// Part and line to samples.
    part_lines: FxHashMap<(TextId, usize), u64>,
    /// Part and block to samples.
    part_blocks: FxHashMap<(TextId, TextId), u64>,
    offsets: FxHashMap<TextId, (u32, u32)>,
}

/// Folds samples onto one page.
#[derive(Debug)]
pub struct PageFold {
    relation: Relation,
    line_size: u32,
    events: Vec<EventPage>,
}

impl PageFold {
    /// An empty page of a relation; `line_size` is a power of two.
    pub fn new(relation: Relation, line_size: u32) -> Self {
        PageFold { relation, line_size, events: Vec::new() }
    }

    /// Counts a sample, if it is on a page of the relation.
    pub fn add(&mut self, sample: &Sample<'_>, object: Option<Object>, index: &ObjectIndex) {
        let (Some(object), Some(address)) = (object, sample.address) else { return };
        if sample.event.0 >= self.events.len() {
            self.events.resize_with(sample.event.0 + 1, EventPage::default);
        }
        let event = &mut self.events[sample.event.0];
        event.with_address += 1;
        if **index.text(object.path.name) != *self.relation.name
            || !is_page(&self.relation, index.text(object.path.class))
        {
            return;
        }
        let Some(offset) = address.0.checked_sub(object.origin.0) else { return };
        if offset >= u64::from(self.relation.page_size) {
            return;
        }
        event.bytes.resize(self.relation.page_size as usize, 0);
        event.bytes[offset as usize] += 1;
        event.count += 1;
        event.stable += u64::from(object.stable);
        let (part, block, offset) = (object.path.part, object.path.instance, offset as u32);
        *event.part_lines.entry((part, (offset / self.line_size) as usize)).or_default() += 1;
        *event.part_blocks.entry((part, block)).or_default() += 1;
        let range = event.offsets.entry(part).or_insert((offset, offset));
        *range = (range.0.min(offset), range.1.max(offset));
    }

    /// The page of an event.
    pub fn page(&self, event: EventIndex, index: &ObjectIndex) -> FoldedPage {
        let empty = EventPage::default();
        let page = self.events.get(event.0).unwrap_or(&empty);
        let mut parts: Vec<(TextId, u64)> = {
            let mut counts: FxHashMap<TextId, u64> = FxHashMap::default();
            for ((part, _), count) in &page.part_blocks {
                *counts.entry(*part).or_default() += count;
            }
            counts.into_iter().collect()
        };
        parts.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| index.text(*a).cmp(index.text(*b))));
        let hottest = |blocks: FxHashMap<TextId, u64>| -> Vec<(Arc<str>, u64)> {
            const SHOWN: usize = 3;
            let mut blocks: Vec<_> =
                blocks.into_iter().map(|(block, count)| (index.text(block).clone(), count)).collect();
            blocks.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
            blocks.truncate(SHOWN);
            blocks
        };
        let blocks_of = |wanted: Option<TextId>| {
            let mut blocks: FxHashMap<TextId, u64> = FxHashMap::default();
            for ((part, block), count) in &page.part_blocks {
                if wanted.is_none_or(|wanted| wanted == *part) {
                    *blocks.entry(*block).or_default() += count;
                }
            }
            blocks
        };
        let line_count = (self.relation.page_size).div_ceil(self.line_size) as usize;
        let line = |line: usize| {
            let on_line = |(number, (part, _)): (usize, &(TextId, u64))| {
                page.part_lines.get(&(*part, line)).map(|count| (*count, number))
            };
            let mut here: Vec<(u64, usize)> = parts.iter().enumerate().filter_map(on_line).collect();
            here.sort_by(|(x, a), (y, b)| y.cmp(x).then_with(|| a.cmp(b)));
            let count = here.iter().map(|(count, _)| count).sum();
            PageLine { count, parts: here.into_iter().map(|(_, part)| part).collect() }
        };
        let all_blocks = blocks_of(None);
        FoldedPage {
            event,
            line_size: self.line_size,
            share: Share { count: page.count, total: page.with_address },
            stable: Share { count: page.stable, total: page.count },
            blocks: all_blocks.len() as u64,
            hottest: hottest(all_blocks),
            bytes: if page.bytes.is_empty() {
                vec![0; self.relation.page_size as usize]
            } else {
                page.bytes.clone()
            },
            lines: (0..line_count).map(line).collect(),
            parts: parts
                .iter()
                .map(|(part, count)| {
                    let blocks = blocks_of(Some(*part));
                    PagePart {
                        name: index.text(*part).clone(),
                        share: Share { count: *count, total: page.count },
                        blocks: blocks.len() as u64,
                        offsets: page.offsets[part],
                        hottest: hottest(blocks),
                    }
                })
                .collect(),
        }
    }

    /// The relation.
    pub fn relation(&self) -> &Relation {
        &self.relation
    }
}

/// Whether an object is a page of the relation. Other objects have the relation's name, too, such as the
/// descriptor of its buffer. The class of a page ends with the relation's kind: "index" matches "btree
/// index".
fn is_page(relation: &Relation, class: &str) -> bool {
    !class.is_empty() && relation.kind.ends_with(class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::ObjectSource;
    use crate::testing::sample;
    use hardmeter_samples::model::VirtualAddress;
    use hardmeter_samples::object_notes::{ObjectPath, PageKind};

    fn relation(name: &str) -> Relation {
        Relation { name: name.into(), kind: "btree index".into(), page_size: 256 }
    }

    #[test]
    fn pages_of_impossible_sizes_are_none() {
        let mut notes = ObjectNotes::new("x");
        notes.texts.extend(["t".to_string(), "u\x1b[2J".to_string()]);
        let page = |relation, page_size| PageKind { relation: TextId(relation), page_size, kind: TextId(0) };
        notes.pages = vec![page(1, 0), page(1, u32::MAX), page(9, 8192), page(2, 8192)];
        let relations = relations(&notes);
        assert_eq!(relations.iter().map(|relation| relation.page_size).collect::<Vec<_>>(), [8192]);
        let error = find_relation("t", &relations).expect_err("too large, or of no size").to_string();
        assert_eq!(error, "no relation \"t\" was sampled; there are u\u{fffd}[2J");
    }

    #[test]
    fn a_relation_is_found_with_and_without_its_schema() {
        let relations = ["public.t_pkey", "a.t", "b.t", "public.t"].map(relation);
        let name = |wanted| find_relation(wanted, &relations).map(|relation| relation.name.as_str());
        assert_eq!(name("t_pkey"), Ok("public.t_pkey"));
        assert_eq!(name("a.t"), Ok("a.t"));
        let error = name("t").unwrap_err().to_string();
        assert_eq!(error, "\"t\" may be any of a.t, b.t, public.t; name one of them in full");
        let error = name("pkey").unwrap_err().to_string();
        assert_eq!(error, "no relation \"pkey\" was sampled; similar: public.t_pkey");
        let error = name("x").unwrap_err().to_string();
        assert!(error.ends_with("there are public.t_pkey, a.t, b.t, public.t"), "{error}");
        assert_eq!(find_relation("t", &[]), Err(RelationError::None));
    }

    #[test]
    fn samples_of_all_blocks_fall_onto_one_page() {
        let mut notes = ObjectNotes::new("a server");
        let words =
            ["index", "i", "block 1", "block 2", "header", "keys", "buffer descriptor", "btree index"];
        notes.texts.extend(words.map(String::from));
        notes.pages.push(PageKind { relation: TextId(2), page_size: 256, kind: TextId(8) });
        let relation = find_relation("i", &relations(&notes)).expect("the only one").clone();
        let (mut index, mut fold) = (ObjectIndex::new(Some(&notes)), PageFold::new(relation, 64));
        // Class, block, part, as the side file has them; origin and address.
        for (class, block, part, origin, address) in [
            (1, 3, 5, 0x1000, 0x1000),
            (1, 3, 6, 0x1000, 0x1048),
            (1, 4, 6, 0x2000, 0x2048),
            (1, 4, 6, 0x2000, 0x203f),
            (7, 4, 0, 0x9000, 0x9000), // the buffer's descriptor, not a page
            (1, 4, 6, 0x2000, 0x2100), // beyond the page: a damaged side file
        ] {
            let mut sample = sample(0, 1, 0x400);
            sample.address = Some(VirtualAddress(address));
            let [class, name, instance, part] =
                [class, 2, block, part].map(|id| index.number(notes.text(TextId(id))));
            let path = ObjectPath { class, name, instance, part };
            let (origin, source) = (VirtualAddress(origin), ObjectSource::Notes);
            fold.add(&sample, Some(Object { path, origin, source, stable: block == 3 }), &index);
        }
        let page = fold.page(EventIndex(0), &index);
        assert_eq!(page.share, Share { count: 4, total: 6 });
        assert_eq!((page.stable.count, page.blocks), (2, 2));
        assert_eq!(page.hottest, [("block 1".into(), 2), ("block 2".into(), 2)]);
        let lines: Vec<(u64, Vec<usize>)> =
            page.lines.iter().map(|line| (line.count, line.parts.clone())).collect();
        assert_eq!(lines, [(2, vec![0, 1]), (2, vec![0]), (0, vec![]), (0, vec![])]);
        assert_eq!((page.bytes[0x48], page.bytes.iter().sum::<u64>()), (2, 4));
        let keys = &page.parts[0];
        assert_eq!((&*keys.name, keys.share), ("keys", Share { count: 3, total: 4 }));
        assert_eq!((keys.blocks, keys.offsets), (2, (0x3f, 0x48)));
        assert_eq!(keys.hottest, [("block 2".into(), 2), ("block 1".into(), 1)]);
        assert_eq!(fold.page(EventIndex(9), &index).share, Share { count: 0, total: 0 });
    }
}

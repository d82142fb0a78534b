//! The workload of a simulated machine: applications with threads, kinds with their effects on caches, requests of
//! one or more steps.

use crate::model::{AppId, CodeId, KindRef};

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    /// Its id.
    pub id: AppId,
    /// Its display name.
    pub name: String,
    /// The application whose requests cause its requests.
    pub related: Option<AppId>,
    /// The number of threads that serve requests.
    pub threads: usize,
    /// Code and data that all its kinds use.
    pub code_kb: f64,
    /// The interval between uses of that code, in its own time.
    pub code_pass_us: f64,
}

/// A kind of section.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// The kind.
    pub kind: KindRef,
    /// Its display text.
    pub label: String,
    /// Index of its application.
    pub app: usize,
    /// Its time if all its data is in L2.
    pub warm_us: f64,
    /// Data that its sections use again.
    pub resident_kb: f64,
    /// New data used by each section.
    pub stream_kb: f64,
    /// The number of times that a section uses its data.
    pub passes: f64,
    /// The cost of loading lost data again, relative to dependent loads: less where a prefetcher helps.
    pub reload: f64,
    /// The standard deviation of its time, as a share of it.
    pub spread: f64,
}

/// The request of a client: sections in sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its display name.
    pub name: String,
    /// Indices of kinds. The request is routed by the first.
    pub steps: Vec<usize>,
    /// The relative frequency.
    pub weight: f64,
}

/// The source of requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// The constant number of outstanding requests.
    Closed(usize),
    /// As recorded: the time in microseconds, ascending, and the request. It is repeated from the beginning at its
    /// end.
    Recorded(Vec<(f64, usize)>),
}

/// A complete workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The name given to `--mix`, or the trace's file.
    pub name: String,
    /// A description.
    pub title: String,
    /// Servers.
    pub apps: Vec<App>,
    /// Kinds of all servers.
    pub kinds: Vec<Kind>,
    /// Requests; their steps use all kinds.
    pub requests: Vec<Request>,
    /// Their source.
    pub load: Load,
}

impl Scenario {
    /// A kind's index by application and label.
    pub fn kind(&self, app: &str, label: &str) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.label == label && self.apps[kind.app].name == app)
    }
}

impl Kind {
    /// One pass, no stream; the code is the index within the application.
    pub fn new(app: usize, id: AppId, code: u32, label: &str, warm_us: f64) -> Kind {
        Kind {
            kind: KindRef { app: id, code: CodeId(code) },
            label: label.into(),
            app,
            warm_us,
            resident_kb: 0.0,
            stream_kb: 0.0,
            passes: 1.0,
            reload: 1.0,
            spread: 0.03,
        }
    }

    /// With data that its sections use again.
    pub fn resident(mut self, kb: f64, passes: f64, reload: f64) -> Kind {
        (self.resident_kb, self.passes, self.reload) = (kb, passes, reload);
        self
    }

    /// With new data for each section.
    pub fn streaming(mut self, kb: f64) -> Kind {
        self.stream_kb = kb;
        self
    }
}

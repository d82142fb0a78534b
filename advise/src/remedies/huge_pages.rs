//! A large buffer pool on pages of 4 kB.
//!
//! Rule: the pool has 1 GB or more, and huge pages are off: by the server's own status (version 17), by its
//! setting, or because the kernel has none. A look cannot measure the cost of page walks.

use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Scope};

pub(super) const REMEDY: Remedy = Remedy {
    id: "huge-pages",
    title: "huge pages for the buffer pool",
    audience: Audience::Operator,
    documentation: "https://www.postgresql.org/docs/current/kernel-resources.html#LINUX-HUGE-PAGES",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let gigabytes = look.server.shared_buffers() / f64::from(1 << 30);
    let off = match look.server.setting("huge_pages_status") {
        "on" => false,
        "off" => true,
        _ => {
            look.server.setting("huge_pages") == "off"
                || (look.server.local && look.server.huge_pages_total == 0)
        }
    };
    if gigabytes < 1.0 || !off {
        return None;
    }
    let pages = look.server.number("shared_memory_size_in_huge_pages").filter(|pages| *pages > 0.0);
    let pages = pages.unwrap_or_else(|| (gigabytes * 512.0 * 1.1).ceil()) as u64;
    let total = look.server.huge_pages_total;
    let advice = Advice {
        finding: format!("a buffer pool of {gigabytes:.1} GB is mapped by pages of 4 kB"),
        evidence: vec![
            Evidence::new("buffer pool", gigabytes, "GB", 1),
            Evidence::new("huge pages of this machine", total as f64, "pages", 1),
        ],
        prediction: Prediction::unknown(
            "fewer page walks, and smaller page tables of each backend",
            "hardmeter record, then hardmeter why: it computes page walks with and without huge pages",
        ),
        apply: vec![format!(
            "-- as root: sysctl -w vm.nr_hugepages={}; then restart the server",
            total + pages
        )],
        undo: vec![format!("-- as root: sysctl -w vm.nr_hugepages={total}; then restart the server")],
        risk: "the memory is reserved, and of no use to other programs; needs a restart".into(),
        ..Advice::default()
    };
    // The kernel's pool is always needed; the setting only if it disables huge pages.
    Some(match look.server.setting("huge_pages") {
        "off" => advice.with_setting(&look.server, Scope::System, "huge_pages", "try"),
        _ => advice,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    #[test]
    fn a_small_pool_needs_none() {
        let look = |buffers: &str, status: &str| {
            let settings =
                [("shared_buffers", buffers), ("block_size", "8192"), ("huge_pages_status", status)];
            let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            Look { server: Server { settings, local: true, ..Server::default() }, ..Look::default() }
        };
        // 262,144 blocks of 8 kB are 2 GB.
        let advice = examine(&look("262144", "off")).unwrap();
        assert!(advice.finding.contains("2.0 GB"), "{}", advice.finding);
        assert!(examine(&look("262144", "")).is_some(), "the kernel has none");
        assert_eq!(examine(&look("262144", "on")), None);
        assert_eq!(examine(&look("16384", "off")), None);
    }
}

//! Web sites in two tiers: pages that send statements.

use super::scenario::{App, Kind, Load, Request, Scenario};
use crate::model::AppId;

/// Two tiers, modelled on RUBiS: pages of PHP that send statements. Times and displacement of statements:
/// docs/design/place.md, section 3 (MariaDB) and 6d (sensitivity); of pages: section 4.5.
pub fn auction(cpus: usize) -> Scenario {
    let (web, db) = (AppId(1), AppId(2));
    let apps = vec![
        App {
            id: web,
            name: "web".into(),
            related: None,
            threads: 4 * cpus,
            code_kb: 400.0,
            code_pass_us: 60.0,
        },
        App {
            id: db,
            name: "db".into(),
            related: Some(web),
            threads: 4 * cpus,
            code_kb: 300.0,
            code_pass_us: 40.0,
        },
    ];
    let page = |code, label: &str, us| Kind::new(0, web, code, label, us).resident(100.0, 2.0, 0.5);
    let statement = |code, label: &str, us| Kind::new(1, db, code, label, us);
    let kinds = vec![
        page(2, "ViewItem.php", 120.0),
        page(3, "SearchItemsByCategory.php", 180.0),
        page(4, "SearchItemsByRegion.php", 180.0),
        page(5, "AboutMe.php", 220.0),
        page(6, "StoreBid.php", 140.0),
        statement(2, "select users by id", 16.0).resident(40.0, 1.0, 0.5),
        statement(3, "select items by id", 45.0).resident(90.0, 1.0, 0.5),
        statement(4, "select bids of item", 46.0).resident(120.0, 1.0, 0.5),
        statement(5, "select items of category", 290.0).resident(600.0, 2.0, 1.0).streaming(100.0),
        statement(6, "select items, users of region", 960.0).resident(400.0, 1.0, 0.5).streaming(1500.0),
        statement(7, "insert bid", 60.0).resident(80.0, 1.0, 0.5),
        statement(8, "count bids x items", 3550.0).streaming(6000.0),
    ];
    let request =
        |name: &str, steps: &[usize], weight| Request { name: name.into(), steps: steps.to_vec(), weight };
    Scenario {
        name: "auction".into(),
        title: "an auction site in two tiers: pages and their statements".into(),
        apps,
        kinds,
        requests: vec![
            request("view item", &[0, 6, 0, 7, 0, 5, 0], 0.40),
            request("search category", &[1, 8, 1], 0.30),
            request("search region", &[2, 9, 2], 0.12),
            request("about me", &[3, 5, 3, 11, 3], 0.03),
            request("store bid", &[4, 6, 4, 10, 4], 0.15),
        ],
        load: Load::Closed(4 * cpus),
    }
}

/// The paper's scenario of much data (table 6), for its machine: 100 clients; pages of thousands of short
/// statements (4,542,500 statements for 1,300 pages, 5 rows each). A page here has 24 statements instead of
/// 3,494: the alternation of the tiers matters, not its length.
///
/// From the paper: 152.4 s of 8 logical processors for all statements, that is 268 us of a logical processor
/// for each, including PHP's work. Assumed, not from the paper: the division of that time (a little more in
/// the database), and that each tier's code and common data fit into 256 KB of L2 alone, but not together:
/// Apache with PHP 180 KB, MySQL 160 KB.
pub fn much_data() -> Scenario {
    let (web, db) = (AppId(1), AppId(2));
    let apps = vec![
        App {
            id: web,
            name: "apache".into(),
            related: None,
            threads: 100,
            code_kb: 180.0,
            code_pass_us: 25.0,
        },
        App {
            id: db,
            name: "mysql".into(),
            related: Some(web),
            threads: 100,
            code_kb: 160.0,
            code_pass_us: 20.0,
        },
    ];
    let page =
        |code, label: &str, us| Kind::new(0, web, code, label, us).resident(30.0, 2.0, 0.5).streaming(4.0);
    let statement = |code, label: &str, us: f64, kb: f64| {
        Kind::new(1, db, code, label, us).resident(kb, 1.0, 0.5).streaming(4.0)
    };
    let kinds = vec![
        page(2, "SearchItemsByCategory.php", 60.0),
        page(3, "SearchItemsByRegion.php", 65.0),
        page(4, "ViewBidHistory.php", 55.0),
        statement(2, "select items of category", 110.0, 60.0),
        statement(3, "select users by id", 55.0, 40.0),
        statement(4, "select max bid of item", 65.0, 50.0),
        statement(5, "select items, users of region", 420.0, 40.0).streaming(600.0),
    ];
    let steps = |page: usize, first: usize, then: [usize; 2]| -> Vec<usize> {
        let statements = (0..24).map(|i| if i == 0 { first } else { then[i % 2] });
        std::iter::once(page).chain(statements.flat_map(|statement| [statement, page])).collect()
    };
    let request = |name: &str, steps, weight| Request { name: name.into(), steps, weight };
    Scenario {
        name: "much-data".into(),
        title: "the paper's scenario of much data: few pages of many statements, 100 clients".into(),
        apps,
        requests: vec![
            request("search category", steps(0, 3, [4, 5]), 0.5),
            request("search region", steps(1, 6, [4, 5]), 0.3),
            request("bid history", steps(2, 3, [5, 4]), 0.2),
        ],
        kinds,
        load: Load::Closed(100),
    }
}

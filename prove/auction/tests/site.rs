//! Tests a small site on real servers: compares every page with the database, counts waits, and stops a server.

use hardmeter_auction::{
    run as visit, Arrivals, AuctionError, Mix, Order, Population, Site, SiteSetup, Split, Table, Visited,
};
use hardmeter_servers::web::Php;
use mysql::prelude::Queryable;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whether the site's servers are installed; prints which is missing.
fn can(php: Php) -> bool {
    match Site::require(php, None) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("skipped: {error}: {}", error.remedy());
            false
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn small_site(folder: &Path, seed: u64) -> Site {
    let setup = SiteSetup {
        php: Php::Module,
        mpm: None,
        workers: 4,
        population: Population::of_scale(0.01, seed, now()),
        picture_bytes: 5000,
        split: Split::Off,
        modules: None,
        database_settings: vec!["innodb_buffer_pool_size=64M".parse().unwrap()],
    };
    Site::start(&folder.join("site"), &setup, &|_| {}).unwrap()
}

/// Requests a page; returns status and text.
fn ask(site: &Site, method: &str, path: &str, form: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(site.address()).unwrap();
    let head = format!(
        "{method} /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{form}",
        form.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap_or_else(|| panic!("{path}: {text}")).parse().unwrap();
    (status, text)
}

fn get(site: &Site, path: &str) -> String {
    let (status, text) = ask(site, "GET", path, "");
    assert_eq!(status, 200, "{path}: {text}");
    assert!(
        text.ends_with("</body></html>") || path.ends_with("html") || path.ends_with("svg"),
        "{path}: {text}"
    );
    text
}

fn post(site: &Site, path: &str, form: &str) -> String {
    let (status, text) = ask(site, "POST", path, form);
    assert_eq!(status, 200, "{path} {form}: {text}");
    text
}

fn refused(site: &Site, path: &str, form: &str) {
    let (status, text) = ask(site, "POST", path, form);
    assert_eq!(status, 422, "{path} {form}: {text}");
}

fn sql(site: &Site, statement: &str) -> String {
    site.database().query(&format!("USE auction; {statement}")).unwrap()
}

fn one(site: &Site, statement: &str) -> i64 {
    sql(site, statement).parse().unwrap_or_else(|_| panic!("{statement}: {}", sql(site, statement)))
}

/// The text between two marks.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let from = text.find(before).unwrap_or_else(|| panic!("no {before} in {text}")) + before.len();
    text[from..].split(after).next().unwrap()
}

fn money(cents: i64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn items_of(text: &str) -> Vec<String> {
    text.split("item.php?item=").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

const WHO: &str = "nickname=user7&password=password7";

fn pages_that_read(site: &Site) {
    for file in
        ["", "index.html", "browse.html", "register.html", "sell.html", "me.html", "style.css", "hammer.svg"]
    {
        let (status, text) = ask(site, "GET", file, "");
        assert!(status == 200 && text.len() > 100, "{file}: {text}");
    }
    assert_eq!(get(site, "picture3.svg").split("\r\n\r\n").nth(1).unwrap().len(), 5000);
    assert_eq!(get(site, "categories.php").matches("category.php?category=").count(), 20);
    assert_eq!(get(site, "categories.php?region=5").matches("&amp;region=5\"").count(), 20);
    assert_eq!(get(site, "regions.php").matches("categories.php?region=").count(), 62);

    // Page by page all items of a category, each once.
    let mut shown: Vec<String> = (0..3)
        .flat_map(|page| items_of(&get(site, &format!("category.php?category=3&page={page}"))))
        .collect();
    shown.sort();
    let mut there: Vec<String> =
        sql(site, "SELECT id FROM items WHERE category = 3").lines().map(str::to_owned).collect();
    there.sort();
    assert!(there.len() < 60 && shown == there, "{shown:?} {there:?}");

    let busiest = sql(
        site,
        "SELECT category, region, COUNT(*) FROM items JOIN users ON users.id = seller GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 1",
    );
    let numbers: Vec<&str> = busiest.split('\t').collect();
    let text = get(site, &format!("region.php?category={}&region={}", numbers[0], numbers[1]));
    assert_eq!(items_of(&text).len().to_string(), numbers[2]);

    let brass = one(site, "SELECT COUNT(*) FROM items WHERE name LIKE '%brass%'");
    assert_eq!(items_of(&get(site, "search.php?words=brass")).len() as i64, brass.min(20));
    assert!(items_of(&get(site, "search.php?words=%25")).is_empty(), "% is a character, not a pattern");
    assert_eq!(items_of(&get(site, "catalogue.php?category=3")).len(), there.len());

    for item in ["1", "17", "330"] {
        let text = get(site, &format!("item.php?item={item}"));
        let price =
            one(site, &format!("SELECT GREATEST(max_bid, initial_price) FROM items WHERE id = {item}"));
        assert_eq!(between(&text, "id=\"price\">", "<"), money(price), "{item}");
        let bids = one(site, &format!("SELECT COUNT(*) FROM bids WHERE item_id = {item}"));
        assert_eq!(between(&text, "id=\"bids\">", "<"), bids.to_string());
        let highest = one(site, &format!("SELECT COALESCE(MAX(bid), 0) FROM bids WHERE item_id = {item}"));
        assert_eq!(highest, one(site, &format!("SELECT max_bid FROM items WHERE id = {item}")));
        assert_eq!(
            get(site, &format!("bids.php?item={item}")).matches("user.php?user=").count() as i64,
            bids
        );
    }
    assert!(!get(site, "item.php?item=400").contains("put_bid"), "an auction of old takes no bids");
    let text = get(site, "user.php?user=9");
    assert_eq!(between(&text, "id=\"rating\">", "<"), sql(site, "SELECT rating FROM users WHERE id = 9"));
    for next in ["put_bid", "buy_now", "put_comment"] {
        assert!(get(site, &format!("login.php?next={next}&item=5&to=3"))
            .contains(&format!("action=\"{next}.php\"")));
    }
    assert!(get(site, "sell_item.php?category=4&user=7").contains("register_item.php"));
}

fn pages_that_write(site: &Site) {
    let item = one(site, "SELECT MIN(id) FROM items WHERE nb_of_bids > 0");
    let before = one(site, &format!("SELECT nb_of_bids FROM items WHERE id = {item}"));
    let form = post(site, "put_bid.php", &format!("{WHO}&item={item}"));
    let least: i64 = between(&form, "name=\"minimum\" value=\"", "\"").parse().unwrap();
    assert_eq!(least, 100 + one(site, &format!("SELECT MAX(bid) FROM bids WHERE item_id = {item}")));
    refused(site, "store_bid.php", &format!("{WHO}&item={item}&bid={}&max_bid={least}&qty=1", least - 1));
    let bid = format!("{WHO}&item={item}&bid={least}&max_bid={}&qty=1", least + 500);
    post(site, "store_bid.php", &bid);
    refused(site, "store_bid.php", &bid); // the second time it is too low
    let stored = sql(
        site,
        &format!("SELECT user_id, bid, qty FROM bids WHERE item_id = {item} ORDER BY id DESC LIMIT 1"),
    );
    assert_eq!(stored, format!("7\t{least}\t1"));
    assert_eq!(one(site, &format!("SELECT nb_of_bids FROM items WHERE id = {item}")), before + 1);
    let text = get(site, &format!("item.php?item={item}"));
    assert_eq!(between(&text, "id=\"price\">", "<"), money(least));
    assert!(between(&post(site, "me.php", WHO), "my-bids", "</table>").contains(&format!("item={item}\"")));
    refused(site, "me.php", "nickname=user7&password=password8");

    let item = one(site, "SELECT MIN(id) FROM items WHERE buy_now > 0 AND quantity > 1");
    let quantity = one(site, &format!("SELECT quantity FROM items WHERE id = {item}"));
    assert!(post(site, "buy_now.php", &format!("{WHO}&item={item}")).contains("store_buy_now.php"));
    post(site, "store_buy_now.php", &format!("{WHO}&item={item}&qty=1"));
    refused(site, "store_buy_now.php", &format!("{WHO}&item={item}&qty={quantity}"));
    post(site, "store_buy_now.php", &format!("{WHO}&item={item}&qty={}", quantity - 1));
    assert_eq!(
        sql(site, &format!("SELECT quantity, end_date <= NOW() FROM items WHERE id = {item}")),
        "0\t1"
    );
    refused(site, "store_bid.php", &format!("{WHO}&item={item}&bid=99999999&max_bid=99999999&qty=1"));
    let bought = sql(site, &format!("SELECT SUM(qty) FROM buy_now WHERE buyer_id = 7 AND item_id = {item}"));
    assert!(bought.parse::<i64>().unwrap() >= quantity);

    let rating = one(site, "SELECT rating FROM users WHERE id = 11");
    assert!(post(site, "put_comment.php", &format!("{WHO}&item=1&to=11")).contains("store_comment.php"));
    // A comment may contain anything; it is stored unchanged, and shown as text.
    let hostile = "%3Cscript%3E%27)%3B+DROP+TABLE+users%3B+--+%22%3F%5C";
    post(site, "store_comment.php", &format!("{WHO}&item=1&to=11&rating=5&comment={hostile}"));
    assert_eq!(one(site, "SELECT rating FROM users WHERE id = 11"), rating + 5);
    let kept = sql(site, "SELECT HEX(comment) FROM comments ORDER BY id DESC LIMIT 1");
    let expected: String =
        r#"<script>'); DROP TABLE users; -- "?\"#.bytes().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(kept, expected);
    let text = get(site, "user.php?user=11");
    assert!(
        text.contains("&lt;script&gt;&#039;); DROP TABLE users; -- &quot;?\\") && !text.contains("<script>"),
        "{text}"
    );

    let join = "firstname=A&lastname=B&nickname=o%27neill&password=x&email=a%40b.org&region=3";
    assert!(post(site, "register_user.php", join).contains("user.php?user=1001\""), "the next after 1000");
    refused(site, "register_user.php", join);
    assert!(post(site, "sell.php", "nickname=o%27neill&password=x")
        .contains("sell_item.php?category=20&amp;user=1001"));
    let offer =
        "nickname=o%27neill&password=x&category=4&name=A+%22thing%22&description=Of+use&initial_price=1234\
                 &reserve_price=0&buy_now=0&quantity=1&days=7";
    let text = post(site, "register_item.php", offer);
    let id = between(&text, "item.php?item=", "\"");
    assert_eq!(
        sql(site, &format!("SELECT name, initial_price, seller FROM items WHERE id = {id}")),
        "A \"thing\"\t1234\t1001"
    );
    let text = get(site, &format!("item.php?item={id}"));
    assert!(
        text.contains("A &quot;thing&quot;") && between(&text, "id=\"price\">", "<") == "12.34",
        "{text}"
    );
    assert!(post(site, "me.php", "nickname=o%27neill&password=x").contains(&format!("item.php?item={id}\"")));
}

/// Two request the same name: the second page found it free before the first one's row was committed.
fn a_name_is_given_once(site: &Site) {
    let mut first = site.connect().unwrap();
    first.query_drop("USE auction").unwrap();
    first.query_drop("BEGIN").unwrap();
    first
        .query_drop(
            "INSERT INTO users (firstname, lastname, nickname, password, email, rating, balance, creation_date, region) \
             VALUES ('A', 'B', 'twins', 'x', 'a@b.org', 0, 0, NOW(), 3)",
        )
        .unwrap();
    std::thread::scope(|threads| {
        let second = threads.spawn(|| {
            let join = "firstname=C&lastname=D&nickname=twins&password=y&email=c%40d.org&region=4";
            ask(site, "POST", "register_user.php", join)
        });
        let begun = Instant::now();
        while one(site, "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
            == 0
        {
            assert!(begun.elapsed() < Duration::from_secs(300) && !second.is_finished(), "it does not wait");
            std::thread::sleep(Duration::from_millis(20));
        }
        first.query_drop("COMMIT").unwrap();
        let (status, text) = second.join().unwrap();
        assert!(status == 422 && text.contains("The name is taken."), "{status}: {text}");
    });
    assert_eq!(sql(site, "SELECT firstname FROM users WHERE nickname = 'twins'"), "A");
}

#[test]
fn every_page_says_what_the_database_says_and_keeps_what_it_is_told() {
    if !can(Php::Module) {
        return;
    }
    let folder = folder();
    let mut site = small_site(folder.path(), 7);
    for (table, rows) in
        [("users", 1000), ("items", 330), ("old_items", 1000), ("comments", 1000), ("buy_now", 100)]
    {
        assert_eq!(one(&site, &format!("SELECT COUNT(*) FROM {table}")), rows, "{table}");
    }
    // The rows are those that the generator makes of this seed.
    let population = site.state().population;
    let mut line = Vec::new();
    population.write(Table::Items, 41, &[], &mut line);
    let stored = sql(
        &site,
        "SELECT id, name, description, initial_price, quantity, reserve_price, buy_now, nb_of_bids, max_bid, \
         UNIX_TIMESTAMP(start_date), UNIX_TIMESTAMP(end_date), seller, category FROM items WHERE id = 42",
    );
    assert_eq!(stored, String::from_utf8(line).unwrap().trim_end());

    pages_that_read(&site);
    pages_that_write(&site);
    a_name_is_given_once(&site);
    for (path, status) in [
        ("item.php?item=999999", 404),
        ("user.php?user=999999", 404),
        ("categories.php?region=63", 404),
        ("none.php", 404),
        ("item.php", 400),
        ("item.php?item=1%27+OR+1", 400),
        ("item.php?item[]=1", 400),
        ("search.php?words=%ff", 400),
        ("login.php?next=../../etc&item=1", 400),
        ("me.php?nickname[]=a&password=b", 400),
    ] {
        let (found, text) = ask(&site, "GET", path, "");
        assert_eq!(found, status, "{path}: {text}");
    }
    // Without the database a page reports an error.
    let database = hardmeter_servers::Cluster::open(site.database().folder());
    database.unwrap().stop(&|_| {}).unwrap();
    let (status, text) = ask(&site, "GET", "regions.php", "");
    assert!(status == 500 && text.contains("could not be made"), "{text}");
    site.stop().unwrap();
}

fn open_order(seconds: u64) -> Order {
    Order {
        visited: Visited::OpenMix {
            mix: Mix::Browsing,
            rate: 200.0,
            arrivals: Arrivals::Fixed,
            connections: 4,
            visitors: 30,
        },
        seed: 3,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(seconds),
        patience: Duration::from_secs(300),
    }
}

fn signal(pid: i32, signal: libc::c_int) {
    // SAFETY: a server that the test started, which runs as long as the test holds it.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// MariaDB stalls for at least 0.6 s; 200 requests per second fall due meanwhile, and all except those for files
/// wait for it.
#[test]
fn waiting_counts_and_a_server_that_is_gone_ends_the_run() {
    if !can(Php::Module) {
        return;
    }
    let folder = folder();
    let mut site = small_site(folder.path(), 1);
    let mariadb = site.database().processes()[0].0;
    let mut stopped_at = None;
    let result = visit(&mut site, &open_order(3), &mut |_, _, elapsed| {
        match stopped_at {
            None if elapsed > Duration::from_millis(700) => {
                signal(mariadb, libc::SIGSTOP);
                stopped_at = Some(elapsed);
            }
            Some(at) if elapsed > at + Duration::from_millis(600) => signal(mariadb, libc::SIGCONT),
            _ => {}
        }
        Ok(())
    })
    .unwrap();
    assert_eq!((result.requests, result.errors), (600, 0), "{result:?}");
    let long: u64 =
        result.histogram_us.iter().filter(|(time, _)| *time > 200_000).map(|(_, count)| count).sum();
    assert!(long >= 60, "who was due in the first 0.4 s waited at least 0.2 s: {long}");
    assert!(result.latency_ms.max >= 590.0 && result.longest_queue >= 40, "{:?}", result.latency_ms);

    let mut killed = false;
    let error = visit(&mut site, &open_order(60), &mut |answers, _, _| {
        if answers > 20 && !killed {
            killed = true;
            signal(mariadb, libc::SIGKILL);
        }
        Ok(())
    })
    .unwrap_err();
    assert!(matches!(&error, AuctionError::Gone { who: "MariaDB", .. }), "{error}");
}

//! Visitors of a mix: sources of requests. The next request depends on the pages seen.

use crate::http::{get, post};
use crate::interaction::Interaction::{self, *};
use crate::links::Links;
use crate::mix::Mix;
use crate::population::Population;
use crate::random::{Part, Stream};
use memchr::memmem;

/// Sources of requests: visitors, each with one request at a time.
pub trait Visits {
    /// Appends the next request of a visitor. `None`: the visitor has no more requests, or this mix never has any.
    fn next(&mut self, visitor: usize, request: &mut Vec<u8>) -> Option<Interaction>;
    /// Processes a page of status 200.
    fn shown(&mut self, visitor: usize, interaction: Interaction, body: &[u8]);
    /// The request failed; the visitor will choose another one.
    fn failed(&mut self, visitor: usize);
    /// Total number of requests, if known.
    fn total(&self) -> Option<u64> {
        None
    }
}

/// Visitors of a mix, created on demand; a visitor whose visit ended begins another one as another member.
pub struct Visitors {
    mix: Mix,
    population: Population,
    seed: u64,
    visitors: Vec<Visitor>,
    links: Links,
    /// Number of members that joined in this run, for unused names.
    joined: u32,
}

struct Visitor {
    stream: Stream,
    /// The current page; `None`: a visit begins.
    at: Option<Interaction>,
    /// The member: `user7`.
    member: u32,
    item: Option<u32>,
    seller: Option<u32>,
    can_bid: bool,
    can_buy: bool,
    /// The least bid for the item, in cents.
    minimum: Option<u32>,
    category: Option<u32>,
    region: Option<u32>,
    page: u32,
    more: Option<u32>,
    items: Vec<u32>,
    users: Vec<u32>,
    categories: Vec<u32>,
    regions: Vec<u32>,
}

impl Visitor {
    fn new(seed: u64, number: u32, population: &Population) -> Visitor {
        let mut stream = Stream::of_one(seed, Part::Visits, number);
        let member = stream.within(1, population.users);
        Visitor {
            stream,
            at: None,
            member,
            item: None,
            seller: None,
            can_bid: false,
            can_buy: false,
            minimum: None,
            category: None,
            region: None,
            page: 0,
            more: None,
            items: Vec::new(),
            users: Vec::new(),
            categories: Vec::new(),
            regions: Vec::new(),
        }
    }

    /// Begins another visit without the state of the last one.
    fn begin_again(&mut self, population: &Population) {
        self.member = self.stream.within(1, population.users);
        self.at = None;
        (self.item, self.seller, self.category, self.region) = (None, None, None, None);
        for list in [&mut self.items, &mut self.users, &mut self.categories, &mut self.regions] {
            list.clear();
        }
    }

    /// Whether the pages so far lead there.
    fn can(&self, to: Interaction) -> bool {
        match to {
            SearchCategory => self.category.is_some() || !self.categories.is_empty(),
            RegionCategories => !self.regions.is_empty(),
            SearchRegion => self.region.is_some() && (self.category.is_some() || !self.categories.is_empty()),
            Item => !self.items.is_empty(),
            User => self.seller.is_some() || !self.users.is_empty(),
            BidHistory => self.item.is_some(),
            CommentLogin | PutComment => self.item.is_some() && self.seller.is_some(),
            StoreComment => self.item.is_some() && self.seller.is_some(),
            BidLogin | PutBid => self.item.is_some() && self.can_bid,
            StoreBid => self.item.is_some() && self.minimum.is_some(),
            BuyNowLogin | BuyNow | StoreBuyNow => self.item.is_some() && self.can_buy,
            SellItem | RegisterItem => !self.categories.is_empty(),
            _ => true,
        }
    }

    /// The next interaction by the weights; `None`: the visit ends.
    fn choose(&mut self, mix: Mix) -> Option<Interaction> {
        let Some(at) = self.at else { return Some(Home) };
        let possible = |visitor: &Visitor, to: Option<Interaction>| to.is_none_or(|to| visitor.can(to));
        let weights = mix.after(at);
        let sum = weights.iter().filter(|(to, _)| possible(self, *to)).map(|(_, weight)| weight).sum();
        let mut left = self.stream.below(sum);
        for &(to, weight) in weights.iter().filter(|(to, _)| possible(self, *to)) {
            if left < weight {
                return to;
            }
            left -= weight;
        }
        // No next interaction is possible: return to the start page.
        Some(Home)
    }
}

impl Visitors {
    /// Visitors of a mix, none yet.
    pub fn new(mix: Mix, population: Population, seed: u64) -> Visitors {
        Visitors { mix, population, seed, visitors: Vec::new(), links: Links::default(), joined: 0 }
    }
}

impl Visits for Visitors {
    fn next(&mut self, number: usize, request: &mut Vec<u8>) -> Option<Interaction> {
        while self.visitors.len() <= number {
            let next = self.visitors.len() as u32;
            self.visitors.push(Visitor::new(self.seed, next, &self.population));
        }
        let visitor = &mut self.visitors[number];
        let interaction = match visitor.choose(self.mix) {
            Some(interaction) => interaction,
            None => {
                visitor.begin_again(&self.population);
                Home
            }
        };
        if interaction == RegisterUser {
            self.joined += 1;
        }
        write(visitor, interaction, (self.seed, self.joined), request);
        visitor.at = Some(interaction);
        Some(interaction)
    }

    fn shown(&mut self, number: usize, interaction: Interaction, body: &[u8]) {
        let visitor = &mut self.visitors[number];
        match interaction {
            Home | Browse | Register | Sell | MyLogin | BidLogin | BuyNowLogin | CommentLogin | BuyNow
            | PutComment | StoreBuyNow | StoreComment | SellItem => return,
            PutBid => {
                visitor.minimum = hidden_number(body, b"name=\"minimum\" value=\"");
                return;
            }
            StoreBid => {
                visitor.minimum = None;
                return;
            }
            _ => {}
        }
        self.links.find(body);
        let links = &mut self.links;
        let take = |list: &mut Vec<u32>, found: &mut Vec<u32>| {
            found.retain(|&number| number != 0);
            if !found.is_empty() {
                std::mem::swap(list, found);
            }
        };
        match interaction {
            Categories | RegionCategories | SellCategories => {
                take(&mut visitor.categories, &mut links.categories)
            }
            Regions => take(&mut visitor.regions, &mut links.regions),
            SearchCategory | SearchRegion => {
                visitor.more = links.page.filter(|&page| page > visitor.page);
                take(&mut visitor.items, &mut links.items);
            }
            Item => {
                visitor.seller = links.users.first().copied().filter(|&user| user != 0);
                visitor.can_bid = memmem::find(body, b"next=put_bid").is_some();
                visitor.can_buy = memmem::find(body, b"next=buy_now").is_some();
                visitor.minimum = None;
            }
            BidHistory => take(&mut visitor.users, &mut links.users),
            User => {
                take(&mut visitor.items, &mut links.items);
                take(&mut visitor.users, &mut links.users);
            }
            Me => take(&mut visitor.items, &mut links.items),
            _ => {}
        }
    }

    fn failed(&mut self, number: usize) {
        let visitor = &mut self.visitors[number];
        (visitor.can_bid, visitor.can_buy, visitor.minimum) = (false, false, None);
    }
}

/// The number in a hidden field of a form.
fn hidden_number(body: &[u8], before: &[u8]) -> Option<u32> {
    let from = memmem::find(body, before)? + before.len();
    let digits = &body[from..];
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// Writes the request, and settles what it draws.
fn write(visitor: &mut Visitor, interaction: Interaction, joined: (u64, u32), to: &mut Vec<u8>) {
    let who = format!("nickname=user{0}&password=password{0}", visitor.member);
    let item = visitor.item.unwrap_or(0);
    let seller = visitor.seller.unwrap_or(0);
    match interaction {
        Home => get("index.html", to),
        Browse => get("browse.html", to),
        Register => get("register.html", to),
        Sell => get("sell.html", to),
        MyLogin => get("me.html", to),
        Categories => get("categories.php", to),
        Regions => get("regions.php", to),
        RegionCategories => {
            visitor.region = visitor.stream.one_of(&visitor.regions).copied();
            get(&format!("categories.php?region={}", visitor.region.unwrap_or(0)), to);
        }
        SearchCategory | SearchRegion => {
            // The next page of the current list; from elsewhere a list from its beginning.
            let stays = visitor.at == Some(interaction);
            match visitor.more.filter(|_| stays) {
                Some(page) => visitor.page = page,
                None => {
                    visitor.page = 0;
                    let other = visitor.stream.one_of(&visitor.categories).copied();
                    visitor.category = other.or(visitor.category);
                }
            }
            let (category, page) = (visitor.category.unwrap_or(0), visitor.page);
            match interaction {
                SearchCategory => get(&format!("category.php?category={category}&page={page}"), to),
                _ => {
                    let region = visitor.region.unwrap_or(0);
                    get(&format!("region.php?category={category}&region={region}&page={page}"), to);
                }
            }
        }
        Item => {
            visitor.item = visitor.stream.one_of(&visitor.items).copied();
            get(&format!("item.php?item={}", visitor.item.unwrap_or(0)), to);
        }
        User => {
            // From an item the next user is its seller, from other pages one of those who are named.
            let named = visitor.stream.one_of(&visitor.users).copied();
            let user =
                if visitor.at == Some(Item) { visitor.seller.or(named) } else { named.or(visitor.seller) };
            get(&format!("user.php?user={}", user.unwrap_or(0)), to);
        }
        BidHistory => get(&format!("bids.php?item={item}"), to),
        BidLogin => get(&format!("login.php?next=put_bid&item={item}"), to),
        BuyNowLogin => get(&format!("login.php?next=buy_now&item={item}"), to),
        CommentLogin => get(&format!("login.php?next=put_comment&item={item}&to={seller}"), to),
        PutBid => post("put_bid.php", &format!("{who}&item={item}"), to),
        BuyNow => post("buy_now.php", &format!("{who}&item={item}"), to),
        PutComment => post("put_comment.php", &format!("{who}&item={item}&to={seller}"), to),
        StoreBid => {
            let bid = visitor.minimum.unwrap_or(0) + visitor.stream.below(400);
            post("store_bid.php", &format!("{who}&item={item}&bid={bid}&max_bid={}&qty=1", bid + 500), to);
        }
        StoreBuyNow => post("store_buy_now.php", &format!("{who}&item={item}&qty=1"), to),
        StoreComment => {
            let rating = visitor.stream.one_of(&[-5, -3, 0, 3, 5]).copied().unwrap_or(0);
            let form =
                format!("{who}&item={item}&to={seller}&rating={rating}&comment=It+came+as+it+was+described");
            post("store_comment.php", &form, to);
        }
        RegisterUser => {
            // The name contains the seed: a second run on the same data uses other names than the first.
            let name = format!("new{:x}n{}", joined.0 & 0xff_ffff, joined.1);
            let region = visitor.stream.within(1, crate::words::REGIONS);
            let form = format!(
                "firstname=New&lastname=Member&nickname={name}&email={name}%40example.org&password=secret&region={region}"
            );
            post("register_user.php", &form, to);
        }
        SellCategories => post("sell.php", &who, to),
        SellItem => {
            visitor.category = visitor.stream.one_of(&visitor.categories).copied();
            let category = visitor.category.unwrap_or(0);
            get(&format!("sell_item.php?category={category}&user={}", visitor.member), to);
        }
        RegisterItem => {
            let price = visitor.stream.within(100, 20_000);
            let form = format!(
                "{who}&category={}&name=sturdy+shelf+no+{}&description=It+stood+in+the+hall&initial_price={price}\
                 &reserve_price=0&buy_now={}&quantity=2&days=7",
                visitor.category.unwrap_or(0),
                visitor.stream.within(1, 9999),
                price * 2
            );
            post("register_item.php", &form, to);
        }
        Me => post("me.php", &who, to),
        SearchWords | Catalogue | Picture => unreachable!("no mix has {}", interaction.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitors(mix: Mix) -> Visitors {
        Visitors::new(mix, Population::of_scale(0.01, 1, 1_800_000_000), 5)
    }

    fn line(request: &[u8]) -> String {
        String::from_utf8_lossy(request).lines().next().unwrap().to_owned()
    }

    /// Simulates pages as the site makes them, and returns the requests.
    fn walk(visitors: &mut Visitors, steps: usize) -> Vec<(Interaction, String)> {
        let mut asked = Vec::new();
        for _ in 0..steps {
            let mut request = Vec::new();
            let interaction = visitors.next(0, &mut request).unwrap();
            let body: &[u8] = match interaction {
                Categories => b"<a href=\"category.php?category=4\">",
                RegionCategories => b"<a href=\"region.php?category=5&amp;region=9\">",
                Regions => b"<a href=\"categories.php?region=9\">",
                SearchCategory | SearchRegion => {
                    b"<a href=\"item.php?item=77\"><a href=\"category.php?category=4&amp;page=1\">"
                }
                Item => b"<a href=\"user.php?user=3\"><a href=\"login.php?next=put_bid&amp;item=77\">",
                PutBid => b"<input name=\"minimum\" value=\"1250\">",
                SellCategories => b"<a href=\"sell_item.php?category=6&amp;user=1\">",
                _ => b"",
            };
            visitors.shown(0, interaction, body);
            asked.push((interaction, String::from_utf8(request).unwrap()));
        }
        asked
    }

    #[test]
    fn a_visitor_asks_for_what_pages_showed_and_for_nothing_else() {
        let asked = walk(&mut visitors(Mix::Bidding), 5000);
        assert_eq!(asked[0].0, Home);
        for (interaction, request) in &asked {
            let line = line(request.as_bytes());
            match interaction {
                Item => assert!(line.contains("item.php?item=77 "), "{line}"),
                BidLogin => assert!(line.contains("next=put_bid&item=77 "), "{line}"),
                BuyNowLogin | BuyNow | StoreBuyNow => panic!("no page offered to buy: {line}"),
                SearchRegion => assert!(line.contains("category=") && line.contains("region=9&"), "{line}"),
                StoreBid => {
                    let bid: u32 =
                        request.split("&bid=").nth(1).unwrap().split('&').next().unwrap().parse().unwrap();
                    assert!((1250..1650).contains(&bid), "{request}");
                }
                _ => {}
            }
            assert!(!line.contains("=0 ") || line.contains("page=0"), "{line}");
        }
        let share = |of: Interaction| asked.iter().filter(|(interaction, _)| *interaction == of).count();
        assert!(share(StoreBid) > 200 && share(RegisterItem) > 3 && share(RegisterUser) > 3);
    }

    #[test]
    fn the_same_seed_asks_the_same_and_a_refusal_changes_the_way() {
        assert_eq!(walk(&mut visitors(Mix::Browsing), 300), walk(&mut visitors(Mix::Browsing), 300));
        let mut bidder = visitors(Mix::Bidding);
        for _ in 0..2000 {
            let mut request = Vec::new();
            let interaction = bidder.next(0, &mut request).unwrap();
            assert_ne!(interaction, StoreBid, "no form was shown");
            match interaction {
                Item => bidder.shown(
                    0,
                    Item,
                    b"<a href=\"login.php?next=put_bid&amp;item=1\"> <a href=\"user.php?user=3\">",
                ),
                Categories => bidder.shown(0, Categories, b"?category=4"),
                SearchCategory => bidder.shown(0, SearchCategory, b"?item=1"),
                PutBid => bidder.failed(0),
                _ => bidder.shown(0, interaction, b""),
            }
        }
    }
}

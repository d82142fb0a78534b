//! A visitor's interactions: each is one page or one file.

use serde::{Deserialize, Serialize};

macro_rules! interactions {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $writes:literal;)*) => {
        /// An interaction. Most are those of RUBiS, under other names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Interaction { $($(#[$doc])* $name),* }

        impl Interaction {
            /// All of them.
            pub const ALL: &[Interaction] = &[$(Interaction::$name),*];

            /// Its name in results.
            pub fn name(self) -> &'static str {
                match self { $(Interaction::$name => $text),* }
            }

            /// Whether it changes the database.
            pub fn writes(self) -> bool {
                match self { $(Interaction::$name => $writes),* }
            }
        }
    };
}

interactions! {
    /// The start page; a file.
    Home = "home", false;
    /// Choice of category or region; a file.
    Browse = "browse", false;
    /// All categories.
    Categories = "categories", false;
    /// A page of a category's open auctions.
    SearchCategory = "search_category", false;
    /// All regions.
    Regions = "regions", false;
    /// All categories, in one region.
    RegionCategories = "region_categories", false;
    /// A page of a category's open auctions, by sellers of a region.
    SearchRegion = "search_region", false;
    /// One item.
    Item = "item", false;
    /// One member.
    User = "user", false;
    /// The bids for an item.
    BidHistory = "bid_history", false;
    /// Name and password before buying.
    BuyNowLogin = "buy_now_login", false;
    /// The form to buy.
    BuyNow = "buy_now", false;
    /// Buys.
    StoreBuyNow = "store_buy_now", true;
    /// Name and password before bidding.
    BidLogin = "bid_login", false;
    /// The form for a bid.
    PutBid = "put_bid", false;
    /// Bids.
    StoreBid = "store_bid", true;
    /// Name and password before a comment on a seller.
    CommentLogin = "comment_login", false;
    /// The form of the comment.
    PutComment = "put_comment", false;
    /// Stores the comment.
    StoreComment = "store_comment", true;
    /// The form for new members; a file.
    Register = "register", false;
    /// Joins.
    RegisterUser = "register_user", true;
    /// Name and password before selling; a file.
    Sell = "sell", false;
    /// The category.
    SellCategories = "sell_categories", false;
    /// The form for an item.
    SellItem = "sell_item", false;
    /// Offers it.
    RegisterItem = "register_item", true;
    /// Name and password before one's own page; a file.
    MyLogin = "my_login", false;
    /// One's own page.
    Me = "me", false;
    /// Open auctions by a word; reads all items. In no mix; for the scenario of many accesses.
    SearchWords = "search_words", false;
    /// A complete category with thousands of statements. In no mix; for the scenario of much data.
    Catalogue = "catalogue", false;
    /// A picture; a file. In no mix; for the scenarios.
    Picture = "picture", false;
}

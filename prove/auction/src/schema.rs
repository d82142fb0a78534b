//! The tables, as SQL for MariaDB.
//!
//! The paper names seven: `users`, `items`, `bids`, `comments`, `buy_now`, `categories` and `regions`. RUBiS later
//! moved ended auctions from `items` into an eighth table, `old_items`, to keep the browsed one small; so does this
//! site. RUBiS counts numbers in a ninth (`ids`), which AUTO_INCREMENT makes unnecessary. Indexes are those of
//! RUBiS: primary keys, `nickname`, and the columns by which other tables are looked up. Money is in cents.

/// The database.
pub const DATABASE: &str = "auction";

/// The account of the pages: it can only read and write rows.
pub const ACCOUNT: &str = "auction";

const ITEM_COLUMNS: &str = "\
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(100) NOT NULL,
    description TEXT NOT NULL,
    initial_price INT UNSIGNED NOT NULL,
    quantity INT UNSIGNED NOT NULL,
    reserve_price INT UNSIGNED NOT NULL,
    buy_now INT UNSIGNED NOT NULL,
    nb_of_bids INT UNSIGNED NOT NULL,
    max_bid INT UNSIGNED NOT NULL,
    start_date DATETIME NOT NULL,
    end_date DATETIME NOT NULL,
    seller INT UNSIGNED NOT NULL,
    category INT UNSIGNED NOT NULL,
    KEY seller_id (seller),
    KEY category_id (category)";

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Table {
    Categories,
    Regions,
    Users,
    Items,
    OldItems,
    Bids,
    Comments,
    BuyNow,
}

impl Table {
    /// All, in an order in which they can be filled.
    pub const ALL: [Table; 8] = [
        Table::Categories,
        Table::Regions,
        Table::Users,
        Table::Items,
        Table::OldItems,
        Table::Bids,
        Table::Comments,
        Table::BuyNow,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Table::Categories => "categories",
            Table::Regions => "regions",
            Table::Users => "users",
            Table::Items => "items",
            Table::OldItems => "old_items",
            Table::Bids => "bids",
            Table::Comments => "comments",
            Table::BuyNow => "buy_now",
        }
    }

    fn columns(self) -> String {
        match self {
            Table::Categories | Table::Regions => {
                "id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL".into()
            }
            Table::Items | Table::OldItems => ITEM_COLUMNS.into(),
            Table::Users => "\
                id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
                firstname VARCHAR(20) NOT NULL,
                lastname VARCHAR(20) NOT NULL,
                nickname VARCHAR(20) NOT NULL,
                password CHAR(64) CHARACTER SET ascii NOT NULL,
                email VARCHAR(50) NOT NULL,
                rating INT NOT NULL,
                balance INT NOT NULL,
                creation_date DATETIME NOT NULL,
                region INT UNSIGNED NOT NULL,
                UNIQUE KEY nickname (nickname),
                KEY auth (nickname, password),
                KEY region_id (region)"
                .into(),
            Table::Bids => "\
                id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
                user_id INT UNSIGNED NOT NULL,
                item_id INT UNSIGNED NOT NULL,
                qty INT UNSIGNED NOT NULL,
                bid INT UNSIGNED NOT NULL,
                max_bid INT UNSIGNED NOT NULL,
                date DATETIME NOT NULL,
                KEY item (item_id),
                KEY user (user_id)"
                .into(),
            Table::Comments => "\
                id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
                from_user_id INT UNSIGNED NOT NULL,
                to_user_id INT UNSIGNED NOT NULL,
                item_id INT UNSIGNED NOT NULL,
                rating INT NOT NULL,
                date DATETIME NOT NULL,
                comment VARCHAR(500) NOT NULL,
                KEY from_user (from_user_id),
                KEY to_user (to_user_id),
                KEY item (item_id)"
                .into(),
            Table::BuyNow => "\
                id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
                buyer_id INT UNSIGNED NOT NULL,
                item_id INT UNSIGNED NOT NULL,
                qty INT UNSIGNED NOT NULL,
                date DATETIME NOT NULL,
                KEY buyer (buyer_id),
                KEY item (item_id)"
                .into(),
        }
    }

    /// The statement that makes it.
    pub fn create(self) -> String {
        format!(
            "CREATE TABLE {} ({}) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            self.name(),
            self.columns()
        )
    }

    /// The statement that fills it from lines of text with tab-separated columns. Times are seconds since 1970, a
    /// member's password is in plain text.
    pub fn load(self) -> String {
        let (columns, set) = match self {
            Table::Categories | Table::Regions => ("id, name", ""),
            Table::Users => (
                "id, firstname, lastname, nickname, @password, email, rating, balance, @created, region",
                "SET password = SHA2(CONCAT(nickname, ':', @password), 256), creation_date = FROM_UNIXTIME(@created)",
            ),
            Table::Items | Table::OldItems => (
                "id, name, description, initial_price, quantity, reserve_price, buy_now, nb_of_bids, max_bid, @start, @end, \
                 seller, category",
                "SET start_date = FROM_UNIXTIME(@start), end_date = FROM_UNIXTIME(@end)",
            ),
            Table::Bids => ("user_id, item_id, qty, bid, max_bid, @date", "SET date = FROM_UNIXTIME(@date)"),
            Table::Comments => (
                "from_user_id, to_user_id, item_id, rating, @date, comment",
                "SET date = FROM_UNIXTIME(@date)",
            ),
            Table::BuyNow => ("buyer_id, item_id, qty, @date", "SET date = FROM_UNIXTIME(@date)"),
        };
        format!(
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {} CHARACTER SET utf8mb4 ({columns}) {set}",
            self.name()
        )
    }
}

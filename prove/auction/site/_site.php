<?php
// Shared by all pages: the database, parameters, the frame of a page. A page prints nothing before it knows
// its status: 200 shown or done, 400 malformed request, 404 not found, 422 refused (a bid too low), 500
// error.
declare(strict_types=1);

const PAGE_ROWS = 20;

set_exception_handler(function (Throwable $error): void {
    error_log($error->getMessage() . ' in ' . $error->getFile() . ':' . $error->getLine());
    stop(500, 'The page could not be made.');
});

// The database of this site. PHP keeps connections between pages.
function database(): mysqli
{
    static $database = null;
    if ($database === null) {
        mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
        $database = mysqli_init();
        // In the handshake, not by a separate statement.
        $database->options(MYSQLI_SET_CHARSET_NAME, 'utf8mb4');
        $database->real_connect('p:localhost', 'auction', '', 'auction', 0, get_cfg_var('auction.socket'));
    }
    return $database;
}

// Runs a statement; each ? is replaced by the next value: numbers unchanged, texts escaped and quoted.
// Statements contain no other ?.
function query(string $sql, int|string ...$values): mysqli_result|bool
{
    $parts = explode('?', $sql);
    $text = array_shift($parts);
    foreach ($parts as $at => $part) {
        $value = $values[$at];
        $text .= (is_int($value) ? $value : "'" . database()->real_escape_string($value) . "'") . $part;
    }
    return database()->query($text);
}

// The first row, or null.
function row(string $sql, int|string ...$values): ?array
{
    return query($sql, ...$values)->fetch_assoc();
}

function rows(string $sql, int|string ...$values): array
{
    return query($sql, ...$values)->fetch_all(MYSQLI_ASSOC);
}

function nickname(int $user): string
{
    return row('SELECT nickname FROM users WHERE id = ?', $user)['nickname'] ?? 'somebody who left';
}

// A number parameter of at least `least`, or 400.
function number(string $name, int $least = 1, ?int $default = null): int
{
    $text = $_POST[$name] ?? $_GET[$name] ?? null;
    if ($text === null && $default !== null) {
        return $default;
    }
    $number = filter_var($text, FILTER_VALIDATE_INT, ['options' => ['min_range' => $least, 'max_range' => 2000000000]]);
    if ($number === false) {
        stop(400, "The page needs a number for $name.");
    }
    return $number;
}

// A text parameter of at most `longest` characters, or 400.
function text(string $name, int $longest): string
{
    $text = $_POST[$name] ?? $_GET[$name] ?? null;
    if (!is_string($text) || preg_match('/\A.{1,' . $longest . '}\z/us', $text) !== 1) {
        stop(400, "The page needs a text of at most $longest characters for $name.");
    }
    return $text;
}

// Money is entered and stored in cents, and shown with a decimal point.
function money(int|string $cents): string
{
    return number_format(((int) $cents) / 100, 2, '.', '');
}

// The member by name and password; or 422. The digest is not secure: it leaves the benchmark's CPU to
// statements.
function member(): array
{
    $name = text('nickname', 20);
    $digest = hash('sha256', $name . ':' . text('password', 40));
    $member = row('SELECT id, nickname FROM users WHERE nickname = ? AND password = ?', $name, $digest);
    if ($member === null) {
        stop(422, 'Name and password do not fit.');
    }
    return ['id' => (int) $member['id'], 'nickname' => $member['nickname']];
}

// An item on sale, or 404. `lock`: locks its row until the transaction ends.
function item(int $id, bool $lock = false): array
{
    $columns = 'id, name, description, initial_price, quantity, reserve_price, buy_now, nb_of_bids, max_bid, start_date, end_date, seller, category';
    $item = row("SELECT $columns, end_date >= NOW() AS open FROM items WHERE id = ?" . ($lock ? ' FOR UPDATE' : ''), $id);
    if ($item === null && !$lock) {
        $item = row("SELECT $columns, 0 AS open FROM old_items WHERE id = ?", $id);
    }
    if ($item === null) {
        stop(404, 'There is no such item.');
    }
    foreach (['id', 'initial_price', 'quantity', 'reserve_price', 'buy_now', 'nb_of_bids', 'max_bid', 'seller', 'category', 'open'] as $column) {
        $item[$column] = (int) $item[$column];
    }
    return $item;
}

// The minimum of the next bid: a unit above the highest, or the initial price.
function least_bid(array $item): int
{
    return $item['nb_of_bids'] > 0 ? $item['max_bid'] + 100 : $item['initial_price'];
}

function esc(string $text): string
{
    return htmlspecialchars($text, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8');
}

// The frame around every page.
function page(string $title): void
{
    ob_start();
    echo '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>', esc($title), ' - Hammer &amp; Nail</title>',
        '<link rel="stylesheet" href="style.css"></head><body><header><img src="hammer.svg" alt="" width="48" height="48">',
        '<b>Hammer &amp; Nail</b><nav><a href="index.html">Home</a> <a href="browse.html">Browse</a> ',
        '<a href="register.html">Join</a> <a href="sell.html">Sell</a> <a href="me.html">My page</a></nav></header><main><h1>',
        esc($title), '</h1>';
}

function done(): never
{
    echo '</main><footer>Nothing here is for sale.</footer></body></html>';
    header('Content-Length: ' . ob_get_length());
    ob_end_flush();
    exit;
}

function stop(int $status, string $why): never
{
    while (ob_get_level() > 0) {
        ob_end_clean();
    }
    http_response_code($status);
    page($status === 422 ? 'Not accepted' : 'Sorry');
    echo '<p class="stopped">', esc($why), '</p>';
    done();
}

// A table of items, each with a link; and links to the previous and next pages.
function item_table(array $items, string $link, int $page): void
{
    echo '<table class="items"><tr><th>Item</th><th>Price</th><th>Bids</th><th>Ends</th></tr>';
    foreach (array_slice($items, 0, PAGE_ROWS) as $item) {
        $price = max((int) $item['max_bid'], (int) $item['initial_price']);
        echo '<tr><td><a href="item.php?item=', $item['id'], '">', esc($item['name']), '</a></td><td class="price">', money($price),
            '</td><td>', $item['nb_of_bids'], '</td><td>', $item['end_date'], '</td></tr>';
    }
    echo '</table><p>';
    if ($page > 0) {
        echo '<a href="', $link, '&amp;page=', $page - 1, '">Earlier</a> ';
    }
    if (count($items) > PAGE_ROWS) {
        echo '<a class="next" href="', $link, '&amp;page=', $page + 1, '">More</a>';
    }
    echo '</p>';
}

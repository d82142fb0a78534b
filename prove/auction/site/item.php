<?php
// One item: its price, its seller, and the possible actions.
require '_site.php';
$item = item(number('item'));
$best = row('SELECT MAX(bid) AS bid, COUNT(*) AS number FROM bids WHERE item_id = ?', $item['id']);
$seller = nickname($item['seller']);
page($item['name']);
$id = $item['id'];
echo '<dl><dt>Price</dt><dd class="price" id="price">', money(max($item['max_bid'], $item['initial_price'])), '</dd><dt>Highest bid</dt><dd>',
    $best['bid'] === null ? 'none' : money($best['bid']), '</dd><dt>Bids</dt><dd id="bids">', $best['number'],
    '</dd><dt>Left</dt><dd id="quantity">', $item['quantity'], '</dd><dt>Began</dt><dd>', $item['start_date'], '</dd><dt>Ends</dt><dd>',
    $item['end_date'], '</dd></dl><p>', esc($item['description']), '</p><p>Sold by <a href="user.php?user=', $item['seller'], '">', esc($seller),
    '</a>. <a href="bids.php?item=', $id, '">All bids</a></p>';
if ($item['open'] === 1) {
    echo '<p><a href="login.php?next=put_bid&amp;item=', $id, '">Bid for it</a> ';
    if ($item['buy_now'] > 0 && $item['quantity'] > 0) {
        echo '<a href="login.php?next=buy_now&amp;item=', $id, '">Buy it now for ', money($item['buy_now']), '</a> ';
    }
    echo '</p>';
}
echo '<p><a href="login.php?next=put_comment&amp;item=', $id, '&amp;to=', $item['seller'], '">Say something about the seller</a></p>';
done();

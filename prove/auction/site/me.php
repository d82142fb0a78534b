<?php
// A member's own page: bids, purchases, sales, comments. One statement for each listed item.
require '_site.php';
$member = member();
$id = $member['id'];
$bids = rows('SELECT item_id, MAX(bid) AS bid FROM bids WHERE user_id = ? GROUP BY item_id ORDER BY item_id LIMIT 20', $id);
$bought = rows('SELECT item_id, qty, date FROM buy_now WHERE buyer_id = ? ORDER BY date DESC LIMIT 20', $id);
$selling = rows('SELECT id, name, initial_price, max_bid, nb_of_bids, end_date FROM items WHERE seller = ? LIMIT 21', $id);
$sold = rows('SELECT id, name, initial_price, max_bid, nb_of_bids, end_date FROM old_items WHERE seller = ? ORDER BY end_date DESC LIMIT 20', $id);
$said = rows('SELECT from_user_id, date, rating, comment FROM comments WHERE to_user_id = ? ORDER BY date DESC LIMIT 20', $id);
page('The page of ' . $member['nickname']);
$name = fn (int $item): string => row('SELECT name FROM items WHERE id = ?', $item)['name'] ?? 'an item of old';
echo '<h2>Bids</h2><table id="my-bids">';
foreach ($bids as $bid) {
    echo '<tr><td><a href="item.php?item=', $bid['item_id'], '">', esc($name((int) $bid['item_id'])), '</a></td><td class="price">', money($bid['bid']), '</td></tr>';
}
echo '</table><h2>Bought</h2><table id="my-purchases">';
foreach ($bought as $one) {
    echo '<tr><td><a href="item.php?item=', $one['item_id'], '">', esc($name((int) $one['item_id'])), '</a></td><td>', $one['qty'], '</td><td>', $one['date'], '</td></tr>';
}
echo '</table><h2>On offer</h2>';
item_table($selling, 'me.html#', 0);
echo '<h2>Sold</h2>';
item_table($sold, 'me.html#', 0);
echo '<h2>Said of you</h2>';
foreach ($said as $comment) {
    echo '<blockquote><a href="user.php?user=', $comment['from_user_id'], '">', esc(nickname((int) $comment['from_user_id'])), '</a>, ', $comment['date'], ' (',
        $comment['rating'], '): ', esc($comment['comment']), '</blockquote>';
}
done();

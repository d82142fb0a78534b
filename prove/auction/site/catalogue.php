<?php
// A complete category for printing: three small statements per item (its seller, its bids, comments on the
// seller), as in pages that grew over time. Thousands of statements per page: the volume scenario.
require '_site.php';
$category = number('category');
$items = rows('SELECT id, name, initial_price, seller, start_date, end_date FROM items WHERE category = ?', $category);
page('Catalogue');
echo '<table class="items">';
foreach ($items as $item) {
    $bids = row('SELECT COUNT(*) AS number, MAX(bid) AS highest FROM bids WHERE item_id = ?', (int) $item['id']);
    $said = row('SELECT COUNT(*) AS number, AVG(rating) AS rating FROM comments WHERE to_user_id = ?', (int) $item['seller']);
    $price = max((int) $item['initial_price'], (int) $bids['highest']);
    echo '<tr><td><a href="item.php?item=', $item['id'], '">', esc($item['name']), '</a></td><td class="price">', money($price), '</td><td>',
        $bids['number'], ' bids</td><td><a href="user.php?user=', $item['seller'], '">', esc(nickname((int) $item['seller'])), '</a> ',
        $said['number'] > 0 ? round((float) $said['rating'], 1) : 'new', '</td><td class="price">', money($item['initial_price']), '</td><td>', $item['start_date'], '</td><td>', $item['end_date'], "</td></tr>\n";
}
echo '</table>';
done();

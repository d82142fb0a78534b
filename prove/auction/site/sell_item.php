<?php
// The form for an item. No statement.
require '_site.php';
$category = number('category');
$user = number('user');
page('Your item');
echo '<form method="post" action="register_item.php"><input type="hidden" name="category" value="', $category, '"><input type="hidden" name="user" value="', $user, '">';
foreach (['name' => 'Name', 'initial_price' => 'Price to begin with', 'reserve_price' => 'Least price', 'buy_now' => 'Price to buy now', 'quantity' => 'How many', 'days' => 'Days'] as $field => $label) {
    echo '<label>', $label, ' <input name="', $field, '"></label>';
}
echo '<textarea name="description" maxlength="2000"></textarea><button>Offer it</button></form>';
done();

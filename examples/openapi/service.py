"""A shop as a service of FastAPI with 40 operations, in memory: something to try an agent on without a network.

    pip install fastapi uvicorn
    uvicorn examples.openapi.service:app --port 8000

    mcpagent tools search "what is running out" --openapi http://127.0.0.1:8000/openapi.json
    mcpagent chat --openapi http://127.0.0.1:8000/openapi.json

`make_app()` returns a new shop; its data are `app.state.shop`.
"""

from datetime import date
from typing import Any, Literal

from fastapi import APIRouter, FastAPI, HTTPException
from pydantic import BaseModel, Field


class Product(BaseModel):
    name: str
    price: float = Field(ge=0, description="In euros.")
    stock: int = Field(0, ge=0, description="Pieces in the warehouse.")


class Customer(BaseModel):
    name: str
    email: str
    city: str = ""


class OrderLine(BaseModel):
    product: int = Field(description="ID of a product.")
    count: int = Field(1, ge=1)


class Order(BaseModel):
    customer: int = Field(description="ID of a customer.")
    lines: list[OrderLine] = []
    state: Literal["open", "shipped", "cancelled"] = "open"


class Invoice(BaseModel):
    order: int = Field(description="ID of an order.")
    due: date
    is_paid: bool = False


class Supplier(BaseModel):
    name: str
    products: list[int] = Field([], description="IDs of the products that it delivers.")


class Coupon(BaseModel):
    code: str
    percent: int = Field(ge=1, le=100)


class Review(BaseModel):
    product: int = Field(description="ID of a product.")
    stars: int = Field(ge=1, le=5)
    text: str = ""


KINDS: dict[str, type[BaseModel]] = {
    "product": Product,
    "customer": Customer,
    "order": Order,
    "invoice": Invoice,
    "supplier": Supplier,
    "coupon": Coupon,
    "review": Review,
}


class Shop:
    """The data: by kind, by ID."""

    def __init__(self) -> None:
        self.items: dict[str, dict[int, Any]] = {kind: {} for kind in KINDS}
        self.add("product", Product(name="desk lamp", price=39.0, stock=12))
        self.add("product", Product(name="notebook", price=3.5, stock=2))
        self.add(
            "customer", Customer(name="Ann Lee", email="ann@example.com", city="Oslo")
        )
        self.add("order", Order(customer=1, lines=[OrderLine(product=1, count=1)]))
        self.add("invoice", Invoice(order=1, due=date(2026, 1, 31)))
        self.add("supplier", Supplier(name="Paper Ltd", products=[2]))
        self.add("coupon", Coupon(code="SPRING", percent=10))
        self.add("review", Review(product=1, stars=4, text="Bright."))

    def add(self, kind: str, item: BaseModel) -> int:
        """Store an item under the next ID."""
        number = max(self.items[kind], default=0) + 1
        self.items[kind][number] = item
        return number

    def get(self, kind: str, number: int) -> Any:
        """Return an item. Raises `HTTPException` (404)."""
        if number not in self.items[kind]:
            raise HTTPException(404, f"there is no {kind} {number}")
        return self.items[kind][number]


def basics(shop: Shop, kind: str, model: Any) -> APIRouter:
    """Return the five operations that each kind of item has."""
    router = APIRouter(prefix=f"/{kind}s", tags=[f"{kind}s"])

    def named(action: str, summary: str) -> dict[str, Any]:
        return {"operation_id": f"{action}_{kind}", "summary": summary}

    @router.get("", operation_id=f"list_{kind}s", summary=f"List all {kind}s")
    def list_all() -> dict[int, model]:
        return shop.items[kind]

    @router.post("", status_code=201, **named("create", f"Add a {kind}"))
    def create(item: model) -> dict[str, int]:
        return {"id": shop.add(kind, item)}

    @router.get("/{number}", **named("get", f"Show one {kind}"))
    def get(number: int) -> model:
        return shop.get(kind, number)

    @router.put("/{number}", **named("replace", f"Replace a {kind} with new data"))
    def replace(number: int, item: model) -> model:
        shop.get(kind, number)
        shop.items[kind][number] = item
        return item

    @router.delete("/{number}", status_code=204, **named("delete", f"Delete a {kind}"))
    def delete(number: int) -> None:
        shop.get(kind, number)
        del shop.items[kind][number]

    return router


def further(shop: Shop) -> APIRouter:
    """Return the operations that only some kinds have."""
    router = APIRouter()

    def change_order(number: int, state: str) -> Order:
        order: Order = shop.get("order", number)
        if order.state != "open":
            raise HTTPException(409, f"order {number} is {order.state}")
        order.state = "shipped" if state == "shipped" else "cancelled"
        return order

    @router.post(
        "/orders/{number}/ship",
        tags=["orders"],
        operation_id="ship_order",
        summary="Send an order off",
    )
    def ship(number: int) -> Order:
        return change_order(number, "shipped")

    @router.post(
        "/orders/{number}/cancel",
        tags=["orders"],
        operation_id="cancel_order",
        summary="Cancel an order",
    )
    def cancel(number: int) -> Order:
        return change_order(number, "cancelled")

    @router.post(
        "/invoices/{number}/pay",
        tags=["invoices"],
        operation_id="pay_invoice",
        summary="Mark an invoice as paid",
    )
    def pay(number: int) -> Invoice:
        """Mark an invoice as paid."""
        invoice: Invoice = shop.get("invoice", number)
        invoice.is_paid = True
        return invoice

    @router.get(
        "/stock/low",
        tags=["products"],
        operation_id="low_stock",
        summary="Products that are running out",
    )
    def low(below: int = 5) -> dict[int, Product]:
        return {
            number: item
            for number, item in shop.items["product"].items()
            if item.stock < below
        }

    @router.patch(
        "/products/{number}/stock", tags=["products"], operation_id="change_stock"
    )
    def change_stock(number: int, by: int) -> Product:
        """Add pieces of a product to the warehouse, or take some out with a negative number."""
        product: Product = shop.get("product", number)
        if product.stock + by < 0:
            raise HTTPException(409, f"there are only {product.stock}")
        product.stock += by
        return product

    return router


def make_app() -> FastAPI:
    """Return the service with a shop of its own."""
    app = FastAPI(title="Shop")
    app.state.shop = shop = Shop()
    for kind, model in KINDS.items():
        app.include_router(basics(shop, kind, model))
    app.include_router(further(shop))
    return app


app = make_app()
